"""This host: Java, JDBC archives, cache directories and locks."""
