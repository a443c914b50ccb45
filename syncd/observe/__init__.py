"""Readers of what happens: log, incidents, markers, metrics, board and dashboard; they change nothing."""
