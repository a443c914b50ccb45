"""syncd: keeps Amazon Redshift equal to MySQL, through Parquet files on S3."""
