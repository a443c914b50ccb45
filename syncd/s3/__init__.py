"""S3: the lake client, part files, quarantine files, notes and the preflight checks of a bucket."""
