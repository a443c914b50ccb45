"""The configuration: read once, checked as a whole, told with file and line, frozen."""
