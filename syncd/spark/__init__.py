"""Spark: the session and its JVM, JDBC options, and the task that reads one window."""
