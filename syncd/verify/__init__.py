"""Verification: compare source and target by key range, then row by row."""
