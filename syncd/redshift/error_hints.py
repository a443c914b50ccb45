"""What to do about what does not pass by itself, with names to fill in; the first pattern that is found decides."""

from typing import Final

UNREACHABLE_HINT: Final = (
    "Is the warehouse up, and is there a way to it from this machine? A paused cluster: aws redshift resume-cluster"
)

ERROR_HINTS: Final = (
    (
        r"query monitoring rule|by wlm abort",
        "Give the loader a queue without that rule, and name its query group in `warehouse.query_group`.",
    ),
    (
        r"must be (?:the )?owner of (?:table|relation) (?P<table>\S+)",
        "ALTER TABLE {table} OWNER TO {user};",
    ),
    (
        r"permission denied for (?:table|relation) (?P<table>\S+)",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {user};",
    ),
    (
        r"permission denied for schema (?P<schema>\S+)",
        "GRANT USAGE, CREATE ON SCHEMA {schema} TO {user};",
    ),
    (
        r"permission denied for database|permission denied to create temporary tables",
        "GRANT TEMP, CREATE ON DATABASE {database} TO {user};",
    ),
    (
        r'schema "?(?P<schema>[^"\s]+)"? does not exist',
        "CREATE SCHEMA {schema} AUTHORIZATION {user};  or mend `warehouse.schema`.",
    ),
    (r"database \S+ does not exist", "Is the database's name right at the end of `warehouse.url`?"),
    (
        r"password authentication failed|28000",
        "Is the user known to the warehouse, and is the password right? ALTER USER {user} PASSWORD '...';",
    ),
    (
        r"not authorized to (?:assume|get credentials)|assumerole",
        "Attach the role of `warehouse.iam_role` to the cluster or namespace, and let it trust redshift.amazonaws.com.",
    ),
    (
        r"access ?denied|unauthorized|status:? ?403|signaturedoesnotmatch|invalidaccesskeyid|expiredtoken",
        "Let the role of `warehouse.iam_role` read the lake: s3:GetObject, s3:ListBucket, and kms:Decrypt for a key.",
    ),
    (r"permanentredirect", "COPY of Parquet wants the bucket in the region of the warehouse."),
    (r"nosuchbucket", "Is the bucket's name right in `lake.url`?"),
    (
        r'relation "?(?P<table>[^"\s]+)"? does not exist|(?:cannot find|no such) table',
        "Somebody dropped or renamed it. Is `warehouse.schema` right?",
    ),
    (
        r"disk full|no space left",
        'See what fills it: SELECT "table", size FROM svv_table_info ORDER BY size DESC LIMIT 10;  or resize it.',
    ),
    (
        r"too many (?:connections|clients)|connection limit",
        "See who is connected: SELECT user_name, count(*) FROM stv_sessions GROUP BY 1;",
    ),
    (r"(?:is|was) paused", "Resume it: aws redshift resume-cluster --cluster-identifier ..."),
)
