"""Stores for documents: in memory, in a directory, on S3."""
