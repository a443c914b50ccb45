"""Generators for the parts of the documentation that come from code."""
