-- What the loading user needs in the warehouse. Choose a password, or none where it logs in by IAM.
CREATE USER syncd_loader PASSWORD 'Replace-me-1';

-- Scratch tables, which are temporary.
GRANT TEMP ON DATABASE dev TO syncd_loader;

-- The tables that are kept equal, the ledger and the fences: it makes them, and owns what it made.
GRANT USAGE, CREATE ON SCHEMA public TO syncd_loader;

-- A table that somebody else made has to become its own, for columns are added and texts widened:
--   ALTER TABLE public.orders OWNER TO syncd_loader;
