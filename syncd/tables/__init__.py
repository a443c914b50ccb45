"""Source tables: sort order, row identity, clocks of order columns, and changes of their columns."""
