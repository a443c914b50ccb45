"""Amazon Redshift: connections, login, sessions, SQL text, ledger and the load transaction."""
