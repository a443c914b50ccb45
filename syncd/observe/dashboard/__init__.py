"""The dashboard: pages made of what the board shows, readable as they are, and kept fresh by a few lines of script."""
