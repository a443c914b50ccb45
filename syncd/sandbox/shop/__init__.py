"""A small shop: five tables of mixed types, rows of any number, and a load that keeps changing them."""
