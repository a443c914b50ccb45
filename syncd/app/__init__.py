"""Composition root: builds systems and stages from settings, each resource opened with its first use."""
