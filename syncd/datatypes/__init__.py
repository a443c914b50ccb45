"""Data types: MySQL column types, how they are stored in Parquet, and how they are declared in Redshift."""
