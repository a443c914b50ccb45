"""Concurrency: running passes, resource pools, stage claims and leases."""
