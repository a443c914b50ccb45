"""The daemon: which stage of which stream runs when, and what becomes of one that fails."""
