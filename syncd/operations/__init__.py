"""Operations: what people ask for, such as mark changes, checks, audits, forecasts and clean-up."""
