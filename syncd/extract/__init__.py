"""Stage 1: read the rows of a window from MySQL and write them to the lake as a batch."""
