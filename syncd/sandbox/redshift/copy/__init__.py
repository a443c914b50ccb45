"""COPY in the Redshift stand-in: files, Parquet rules, rows and load errors."""
