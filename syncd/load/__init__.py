"""Stage 2: load extracted batches into the target."""
