"""A small shop: five tables of mixed types, seeded to any size, and a writer that keeps changing them."""
