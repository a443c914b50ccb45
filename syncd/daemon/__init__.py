"""Daemon: schedules the stages of all streams, retries failed passes and serves health, metrics and pages."""
