"""The lake: key layout, manifests and every other document that lies beside the data files."""
