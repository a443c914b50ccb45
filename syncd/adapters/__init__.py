"""The outside systems, each wrapped in one place; their drivers are imported nowhere else."""
