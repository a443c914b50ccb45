"""A small shop: four tables of mixed types, rows of any number, and a load that keeps changing them."""
