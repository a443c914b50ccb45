"""Spark: one warm session that reads windows over JDBC, and writes parts inside its tasks."""
