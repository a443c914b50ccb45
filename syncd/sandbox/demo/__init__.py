"""A demonstration: the whole system on one machine, a shop that never rests, and a comparison at the end."""
