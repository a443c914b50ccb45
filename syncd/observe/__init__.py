"""Readers of what happens: log, incidents, markers; they change nothing."""
