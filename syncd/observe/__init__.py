"""Readers of events: log, incidents, metrics, board and dashboard."""
