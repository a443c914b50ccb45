"""MySQL and MariaDB: connections, introspection, SQL text, replicas, and the horizon poll."""
