"""Views: how commands show their results as tables, lines and JSON."""
