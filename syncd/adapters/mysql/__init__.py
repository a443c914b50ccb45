"""MySQL and MariaDB, through PyMySQL: what the extract stage asks before Spark reads."""
