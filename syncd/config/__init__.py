"""Configuration: read once, checked as a whole, all mistakes reported by file and line, then frozen."""
