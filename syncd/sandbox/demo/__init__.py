"""The demonstration: the whole system on one machine, a busy shop, and a comparison at the end."""
