"""Configuration: read once, checked as a whole with all mistakes by file and line, then frozen."""
