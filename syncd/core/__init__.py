"""Values and decisions: no input, no output, no clock, no driver."""
