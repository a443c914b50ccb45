"""SQL of the Redshift stand-in: tokens, statements and their translation to PostgreSQL."""
