-- Rights of the loading user in the warehouse. Choose a password, or none for login by IAM.
CREATE USER syncd_loader PASSWORD 'Replace-me-1';

-- Temporary scratch tables.
GRANT TEMP ON DATABASE dev TO syncd_loader;

-- The synced tables, the ledger and the fences: the loader creates and owns them.
GRANT USAGE, CREATE ON SCHEMA public TO syncd_loader;

-- The loader adds columns and widens texts, so it must own a table that another user created:
--   ALTER TABLE public.orders OWNER TO syncd_loader;
