"""Stores that keep documents: in memory, in a directory, on S3."""
