-- What makes a PostgreSQL database answer as Redshift does, as far as SQL itself can: types, comparisons,
-- functions, system views. Run once, by the superuser, in the database that clients will see.
-- The stand-in's own tables and functions begin with redshift_; no client is told of them.

-- Text is compared without trailing spaces (fact 11.15), everywhere: =, joins, GROUP BY, DISTINCT, windows.
-- PostgreSQL has that comparison for CHAR already; here its functions serve TEXT and VARCHAR too.
UPDATE pg_operator o SET oprcode = ('pg_catalog.' || f.name)::regproc
  FROM (VALUES ('=', 'bpchareq'), ('<>', 'bpcharne'), ('<', 'bpcharlt'),
               ('<=', 'bpcharle'), ('>', 'bpchargt'), ('>=', 'bpcharge')) AS f (operator, name)
  WHERE o.oprname = f.operator AND o.oprleft = 'text'::regtype AND o.oprright = 'text'::regtype;
UPDATE pg_amproc SET amproc = 'pg_catalog.bpcharcmp' WHERE amproc = 'pg_catalog.bttextcmp'::regproc;
UPDATE pg_amproc SET amproc = 'pg_catalog.bpchar_sortsupport' WHERE amproc = 'pg_catalog.bttextsortsupport'::regproc;
UPDATE pg_amproc SET amproc = 'pg_catalog.hashbpchar' WHERE amproc = 'pg_catalog.hashtext'::regproc;
UPDATE pg_amproc SET amproc = 'pg_catalog.hashbpcharextended' WHERE amproc = 'pg_catalog.hashtextextended'::regproc;
DELETE FROM pg_amproc WHERE amproc = 'pg_catalog.btvarstrequalimage'::regproc;

CREATE FUNCTION pg_catalog.redshift_raise(code text, message text, detail text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail;
END $$;

-- Lengths count bytes (fact 11.5). An explicit cast cuts, at a character's border; a stored value is refused,
-- unless what is too long are spaces.
CREATE FUNCTION pg_catalog.redshift_cut(value text, width int) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  kept text := left(value, width);
BEGIN
  WHILE octet_length(kept) > width LOOP
    kept := left(kept, greatest(length(kept) - greatest((octet_length(kept) - width) / 4, 1), 0));
  END LOOP;
  RETURN kept;
END $$;

CREATE FUNCTION pg_catalog.redshift_shortened(value varchar, width int, explicit boolean)
RETURNS varchar LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF width < 0 THEN
    RETURN value;
  END IF;
  IF explicit OR octet_length(rtrim(value, ' ')) <= width THEN
    RETURN redshift_cut(value, width);
  END IF;
  RAISE EXCEPTION USING ERRCODE = '22001', MESSAGE = 'value too long for type character varying(' || width || ')';
END $$;
-- No function of SQL: PostgreSQL would put it where it is called, and CREATE TABLE AS would not know the width any more.
-- It is called for every value that is cast: what is rare, and every variable, stands in another.
CREATE FUNCTION pg_catalog.redshift_varchar(value varchar, typmod int, explicit boolean)
RETURNS varchar LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF octet_length(value) + 4 <= typmod THEN
    RETURN value;
  END IF;
  RETURN redshift_shortened(value, typmod - 4, explicit);
END $$;
UPDATE pg_cast SET castfunc = 'pg_catalog.redshift_varchar(varchar,int,boolean)'::regprocedure
  WHERE castsource = 'varchar'::regtype AND casttarget = 'varchar'::regtype;

CREATE FUNCTION pg_catalog.redshift_char(value bpchar, typmod int, explicit boolean)
RETURNS bpchar LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  width int := typmod - 4;
  trimmed text := rtrim(value::text, ' ');
BEGIN
  IF octet_length(trimmed) <> length(trimmed) THEN
    RAISE EXCEPTION USING ERRCODE = '22021', MESSAGE =
      'Multibyte character not supported for CHAR (Hint: Try using VARCHAR). Invalid char: '
      || substring(trimmed FROM E'[^\\x01-\\x7f]');
  END IF;
  IF width >= 0 AND length(trimmed) > width THEN
    IF NOT explicit THEN
      RAISE EXCEPTION USING ERRCODE = '22001', MESSAGE = 'value too long for type character(' || width || ')';
    END IF;
    trimmed := left(trimmed, width);
  END IF;
  RETURN rpad(trimmed, greatest(width, 0), ' ');
END $$;
UPDATE pg_cast SET castfunc = 'pg_catalog.redshift_char(bpchar,int,boolean)'::regprocedure
  WHERE castsource = 'bpchar'::regtype AND casttarget = 'bpchar'::regtype;

-- A decimal of up to 19 digits stands in 8 bytes, so that not all of 19 digits fit (facts, section 3); none is NaN.
CREATE FUNCTION pg_catalog.redshift_numeric(value numeric, typmod int) RETURNS numeric LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  kept numeric := pg_catalog.numeric(value, typmod);
BEGIN
  IF kept = 'NaN' THEN
    RAISE EXCEPTION USING ERRCODE = '22P02', MESSAGE = 'NaN is no value of type numeric';
  END IF;
  IF (typmod - 4) >> 16 = 19 AND abs(kept) * power(10::numeric, (typmod - 4) & 2047) > 9223372036854775807 THEN
    RAISE EXCEPTION USING ERRCODE = '22003', MESSAGE = 'Numeric data overflow (result precision): out of range for 8 bytes';
  END IF;
  RETURN kept;
END $$;
UPDATE pg_cast SET castfunc = 'pg_catalog.redshift_numeric(numeric,int)'::regprocedure
  WHERE castsource = 'numeric'::regtype AND casttarget = 'numeric'::regtype;

-- SUPER keeps the JSON text it was given, without the spaces between its marks. A text constant would become a
-- string scalar in Redshift, not JSON (fact 11.6): here it is refused, by an input function that accepts nothing.
CREATE TYPE pg_catalog.super;
CREATE FUNCTION pg_catalog.super_in(cstring) RETURNS super LANGUAGE internal IMMUTABLE STRICT AS 'pg_node_tree_in';
CREATE FUNCTION pg_catalog.super_out(super) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'json_out';
CREATE FUNCTION pg_catalog.super_recv(internal) RETURNS super LANGUAGE internal IMMUTABLE STRICT AS 'json_recv';
CREATE FUNCTION pg_catalog.super_send(super) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'json_send';
CREATE TYPE pg_catalog.super (
  INPUT = pg_catalog.super_in, OUTPUT = pg_catalog.super_out, RECEIVE = pg_catalog.super_recv,
  SEND = pg_catalog.super_send, INTERNALLENGTH = VARIABLE, ALIGNMENT = int4, STORAGE = extended);
CREATE CAST (json AS super) WITHOUT FUNCTION;
CREATE CAST (super AS json) WITHOUT FUNCTION;

CREATE FUNCTION pg_catalog.redshift_scalar(value varchar) RETURNS super LANGUAGE sql IMMUTABLE STRICT
  RETURN to_json(value)::super;
CREATE CAST (varchar AS super) WITH FUNCTION pg_catalog.redshift_scalar(varchar);

-- A string inside a SUPER has at most 65,535 bytes (fact 11.6).
CREATE FUNCTION pg_catalog.redshift_check_strings(document jsonb) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  PERFORM 1 FROM jsonb_path_query(document, 'strict $.** ? (@.type() == "string")') AS found (value)
    WHERE octet_length(found.value #>> '{}') > 65535;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = 'String value exceeds the max size of 65535 bytes',
      DETAIL = 'code: 1224', HINT = 'set enable_large_strings_opt_in parameter';
  END IF;
END $$;

CREATE FUNCTION pg_catalog.json_parse(value text) RETURNS super LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF octet_length(value) > 65535 THEN
    PERFORM redshift_check_strings(value::jsonb);
  END IF;
  RETURN redshift_replace_behind(value::json::text, E'("(?:[^"\\\\]|\\\\.)*")|\\s+', E'\\1', 'g')::json::super;
EXCEPTION WHEN invalid_text_representation OR untranslatable_character THEN
  RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = 'Invalid input',
    DETAIL = 'code: 8001, context: JSON_PARSE() error: ' || SQLERRM;
END $$;
CREATE FUNCTION pg_catalog.json_serialize(value super) RETURNS varchar LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF octet_length(value::json::text) > 65535 THEN
    RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = 'JSON_SERIALIZE() error: the result exceeds 65535 bytes';
  END IF;
  RETURN value::json::text;
END $$;
CREATE FUNCTION pg_catalog.json_typeof(value super) RETURNS varchar LANGUAGE sql IMMUTABLE STRICT
  RETURN json_typeof(value::json);
CREATE FUNCTION pg_catalog.is_valid_json(value text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
  RETURN value IS JSON OBJECT;
CREATE FUNCTION pg_catalog.is_valid_json_array(value text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
  RETURN value IS JSON ARRAY;

-- VARBYTE: bytes, with a length. A text becomes its own bytes, never those that its digits would spell.
-- Its length is kept as that of bits is: the modifier of a text reaches to 10485760 only.
CREATE TYPE pg_catalog.varbyte;
CREATE FUNCTION pg_catalog.varbyte_in(cstring) RETURNS varbyte LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION pg_catalog.varbyte_out(varbyte) RETURNS cstring LANGUAGE internal STABLE STRICT AS 'byteaout';
CREATE FUNCTION pg_catalog.varbyte_recv(internal) RETURNS varbyte LANGUAGE internal IMMUTABLE STRICT AS 'bytearecv';
CREATE FUNCTION pg_catalog.varbyte_send(varbyte) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION pg_catalog.varbyte_typmod_in(cstring[]) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'varbittypmodin';
CREATE FUNCTION pg_catalog.varbyte_typmod_out(int) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'varbittypmodout';
CREATE TYPE pg_catalog.varbyte (
  INPUT = pg_catalog.varbyte_in, OUTPUT = pg_catalog.varbyte_out, RECEIVE = pg_catalog.varbyte_recv,
  SEND = pg_catalog.varbyte_send, TYPMOD_IN = pg_catalog.varbyte_typmod_in, TYPMOD_OUT = pg_catalog.varbyte_typmod_out,
  INTERNALLENGTH = VARIABLE, ALIGNMENT = int4, STORAGE = extended);
CREATE CAST (bytea AS varbyte) WITHOUT FUNCTION;
CREATE CAST (varbyte AS bytea) WITHOUT FUNCTION;
CREATE FUNCTION pg_catalog.redshift_varbyte(value varbyte, typmod int, explicit boolean)
RETURNS varbyte LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF typmod < 0 OR octet_length(value::bytea) <= typmod THEN
    RETURN value;
  END IF;
  RAISE EXCEPTION USING ERRCODE = '22001', MESSAGE = 'value too long for type varbyte(' || typmod || ')';
END $$;
CREATE CAST (varbyte AS varbyte) WITH FUNCTION pg_catalog.redshift_varbyte(varbyte, int, boolean) AS IMPLICIT;
CREATE FUNCTION pg_catalog.redshift_bytes_of(value varchar) RETURNS varbyte LANGUAGE sql IMMUTABLE STRICT
  RETURN convert_to(value, 'UTF8')::varbyte;
CREATE FUNCTION pg_catalog.redshift_text_of(value varbyte) RETURNS varchar LANGUAGE sql IMMUTABLE STRICT
  RETURN convert_from(value::bytea, 'UTF8');
CREATE CAST (varchar AS varbyte) WITH FUNCTION pg_catalog.redshift_bytes_of(varchar);
CREATE CAST (varbyte AS varchar) WITH FUNCTION pg_catalog.redshift_text_of(varbyte);
CREATE FUNCTION pg_catalog.json_parse(value varbyte) RETURNS super LANGUAGE sql IMMUTABLE STRICT
  RETURN json_parse(convert_from(value::bytea, 'UTF8'));
CREATE FUNCTION pg_catalog.from_hex(value text) RETURNS varbyte LANGUAGE sql IMMUTABLE STRICT
  RETURN decode(value, 'hex')::varbyte;
CREATE FUNCTION pg_catalog.to_hex(value varbyte) RETURNS varchar LANGUAGE sql IMMUTABLE STRICT
  RETURN encode(value::bytea, 'hex');
CREATE FUNCTION pg_catalog.octet_length(value varbyte) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'byteaoctetlen';
CREATE FUNCTION pg_catalog.length(value varbyte) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'byteaoctetlen';
CREATE FUNCTION pg_catalog.len(value varbyte) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'byteaoctetlen';
CREATE FUNCTION pg_catalog.substring(value varbyte, start int, number int) RETURNS varbyte LANGUAGE internal IMMUTABLE STRICT AS 'bytea_substr';
CREATE FUNCTION pg_catalog.md5(value varbyte) RETURNS text LANGUAGE internal IMMUTABLE STRICT AS 'md5_bytea';
CREATE FUNCTION pg_catalog.varbyte_eq(varbyte, varbyte) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'byteaeq';
CREATE FUNCTION pg_catalog.varbyte_ne(varbyte, varbyte) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'byteane';
CREATE FUNCTION pg_catalog.varbyte_lt(varbyte, varbyte) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'bytealt';
CREATE FUNCTION pg_catalog.varbyte_le(varbyte, varbyte) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'byteale';
CREATE FUNCTION pg_catalog.varbyte_gt(varbyte, varbyte) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'byteagt';
CREATE FUNCTION pg_catalog.varbyte_ge(varbyte, varbyte) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'byteage';
CREATE FUNCTION pg_catalog.varbyte_cmp(varbyte, varbyte) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'byteacmp';
CREATE FUNCTION pg_catalog.varbyte_hash(varbyte) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'hashvarlena';
CREATE OPERATOR pg_catalog.= (LEFTARG = varbyte, RIGHTARG = varbyte, FUNCTION = pg_catalog.varbyte_eq, COMMUTATOR = OPERATOR(pg_catalog.=),
  RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES);
CREATE OPERATOR pg_catalog.<> (LEFTARG = varbyte, RIGHTARG = varbyte, FUNCTION = pg_catalog.varbyte_ne);
CREATE OPERATOR pg_catalog.< (LEFTARG = varbyte, RIGHTARG = varbyte, FUNCTION = pg_catalog.varbyte_lt);
CREATE OPERATOR pg_catalog.<= (LEFTARG = varbyte, RIGHTARG = varbyte, FUNCTION = pg_catalog.varbyte_le);
CREATE OPERATOR pg_catalog.> (LEFTARG = varbyte, RIGHTARG = varbyte, FUNCTION = pg_catalog.varbyte_gt);
CREATE OPERATOR pg_catalog.>= (LEFTARG = varbyte, RIGHTARG = varbyte, FUNCTION = pg_catalog.varbyte_ge);
CREATE OPERATOR CLASS pg_catalog.varbyte_ops DEFAULT FOR TYPE varbyte USING btree AS
  OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 pg_catalog.varbyte_cmp(varbyte, varbyte);
CREATE OPERATOR CLASS pg_catalog.varbyte_ops DEFAULT FOR TYPE varbyte USING hash AS
  OPERATOR 1 =, FUNCTION 1 pg_catalog.varbyte_hash(varbyte);

-- Functions that Redshift has and PostgreSQL has not, or has otherwise.
ALTER FUNCTION pg_catalog.to_timestamp(double precision) RENAME TO redshift_to_timestamp_behind;
ALTER FUNCTION pg_catalog.concat(VARIADIC "any") RENAME TO redshift_concat_behind;
CREATE FUNCTION pg_catalog.concat(first text, second text) RETURNS text LANGUAGE sql IMMUTABLE STRICT RETURN first || second;
ALTER FUNCTION pg_catalog.regexp_replace(text, text, text, int) RENAME TO redshift_replace_behind;
ALTER FUNCTION pg_catalog.regexp_replace(text, text, text, int, int) RENAME TO redshift_replace_behind;
ALTER FUNCTION pg_catalog.regexp_replace(text, text, text, int, int, text) RENAME TO redshift_replace_behind;
ALTER FUNCTION pg_catalog.regexp_replace(text, text, text, text) RENAME TO redshift_replace_behind;
ALTER FUNCTION pg_catalog.regexp_replace(text, text, text) RENAME TO redshift_replace_behind;
CREATE FUNCTION pg_catalog.regexp_replace(value text, pattern text, other text) RETURNS text LANGUAGE sql IMMUTABLE STRICT
  RETURN redshift_replace_behind(value, pattern, other, 'g');
CREATE FUNCTION pg_catalog.getdate() RETURNS timestamp LANGUAGE sql STABLE
  RETURN date_trunc('second', statement_timestamp() AT TIME ZONE 'UTC');
CREATE FUNCTION pg_catalog.redshift_sysdate() RETURNS timestamp LANGUAGE sql STABLE
  RETURN transaction_timestamp() AT TIME ZONE 'UTC';
CREATE FUNCTION pg_catalog.len(value text) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'textlen';
CREATE FUNCTION pg_catalog.redshift_sha256(value text) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'sha256_bytea';
CREATE FUNCTION pg_catalog.redshift_sha2(value text, bits int) RETURNS varchar LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN
  CASE bits WHEN 0 THEN encode(redshift_sha256(value), 'hex') WHEN 224 THEN encode(sha224(convert_to(value, 'UTF8')), 'hex')
    WHEN 384 THEN encode(sha384(convert_to(value, 'UTF8')), 'hex') WHEN 512 THEN encode(sha512(convert_to(value, 'UTF8')), 'hex') END;
END $$;
CREATE FUNCTION pg_catalog.sha2(value text, bits int) RETURNS varchar LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF bits = 256 THEN
    RETURN encode(redshift_sha256(value), 'hex');
  END IF;
  RETURN redshift_sha2(value, bits);
END $$;
CREATE FUNCTION pg_catalog.redshift_strtol(value text, base int) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  result numeric := 0;
  digit int;
BEGIN
  FOR place IN 1 .. length(value) LOOP
    digit := strpos('0123456789abcdefghijklmnopqrstuvwxyz', lower(substr(value, place, 1))) - 1;
    IF digit < 0 OR digit >= base THEN
      RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'The input ' || value || ' is not valid to be converted to base ' || base;
    END IF;
    result := result * base + digit;
  END LOOP;
  RETURN result::bigint;
END $$;
CREATE FUNCTION pg_catalog.strtol(value text, base int) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF base = 16 AND octet_length(value) BETWEEN 1 AND 15 THEN
    RETURN ('x' || lpad(value, 16, '0'))::bit(64)::bigint;  -- whatever is no digit is refused by the cast
  END IF;
  RETURN redshift_strtol(value, base);
END $$;
CREATE FUNCTION pg_catalog.dateadd(part text, number bigint, value timestamp) RETURNS timestamp LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  IF rtrim(lower(part), 's') NOT IN ('microsecond', 'millisecond', 'second', 'minute', 'hour', 'day', 'week') THEN
    -- The last day of a month stays the last day in Redshift, and does not in PostgreSQL.
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'the stand-in has no DATEADD by ' || part;
  END IF;
  RETURN value + (number || ' ' || part)::interval;
END $$;
CREATE FUNCTION pg_catalog.datediff(part text, first timestamp, last timestamp) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
  width numeric := CASE rtrim(lower(part), 's') WHEN 'microsecond' THEN 0.000001 WHEN 'millisecond' THEN 0.001 WHEN 'second' THEN 1
    WHEN 'minute' THEN 60 WHEN 'hour' THEN 3600 WHEN 'day' THEN 86400 END;
BEGIN
  IF width IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'the stand-in has no DATEDIFF by ' || part;
  END IF;
  RETURN floor(extract(epoch FROM last) / width) - floor(extract(epoch FROM first) / width);
END $$;
CREATE FUNCTION pg_catalog.convert_timezone(target text, value timestamp) RETURNS timestamp LANGUAGE sql STABLE STRICT
  RETURN value AT TIME ZONE 'UTC' AT TIME ZONE target;
CREATE FUNCTION pg_catalog.convert_timezone(source text, target text, value timestamp) RETURNS timestamp LANGUAGE sql STABLE STRICT
  RETURN value AT TIME ZONE source AT TIME ZONE target;
CREATE FUNCTION pg_catalog.pg_last_copy_count(value bigint) RETURNS bigint LANGUAGE sql IMMUTABLE RETURN value;
CREATE FUNCTION pg_catalog.pg_last_copy_id(value bigint) RETURNS bigint LANGUAGE sql IMMUTABLE RETURN value;
CREATE FUNCTION pg_catalog.is_large_string_enabled() RETURNS boolean LANGUAGE sql STABLE RETURN false;
ALTER FUNCTION pg_catalog.current_setting(text) RENAME TO redshift_setting_behind;
CREATE FUNCTION pg_catalog.current_setting(name text) RETURNS text LANGUAGE sql STABLE STRICT RETURN
  CASE lower(name) WHEN 'server_version' THEN '8.0.2' ELSE redshift_setting_behind(name) END;
ALTER FUNCTION pg_catalog.version() RENAME TO redshift_version_behind;
CREATE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql STABLE RETURN {version};

-- What PostgreSQL has no place for: how a table is distributed, sorted and encoded, keys that nobody enforces,
-- names longer than 63 bytes, what COPY did.
CREATE TABLE pg_catalog.redshift_tables (
  relation oid PRIMARY KEY, diststyle text NOT NULL, distkey text, sortkeys text[] NOT NULL, encoded text NOT NULL);
CREATE TABLE pg_catalog.redshift_columns (relation oid, attribute int, encoding text NOT NULL, PRIMARY KEY (relation, attribute));
CREATE TABLE pg_catalog.redshift_keys (relation oid, kind text, columns int[]);
CREATE TABLE pg_catalog.redshift_names (short text PRIMARY KEY, long text NOT NULL);
CREATE TABLE pg_catalog.redshift_loads (
  user_name name, query_id bigint, session_id int, database_name text, table_name text, start_time timestamp, end_time timestamp,
  data_source text, loaded_rows bigint, loaded_bytes bigint, source_file_count int, status text, error_message text);
CREATE TABLE pg_catalog.redshift_load_errors (
  user_name name, query_id bigint, session_id int, database_name text, table_id oid, start_time timestamp,
  file_name text, line_number bigint, column_name text, column_type text, column_length text, error_code int, error_message text);

CREATE FUNCTION pg_catalog.redshift_own(relation regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM pg_class WHERE oid = relation AND pg_has_role(session_user, relowner, 'USAGE');
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'must be owner of relation ' || relation;
  END IF;
END $$;
CREATE FUNCTION pg_catalog.redshift_describe(
  relation regclass, diststyle text, distkey text, sortkeys text[], encoded text, names text[], encodings text[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  PERFORM redshift_own(relation);
  INSERT INTO redshift_tables VALUES (relation, diststyle, distkey, sortkeys, encoded)
    ON CONFLICT ON CONSTRAINT redshift_tables_pkey DO UPDATE
    SET diststyle = excluded.diststyle, distkey = excluded.distkey, sortkeys = excluded.sortkeys, encoded = excluded.encoded;
  INSERT INTO redshift_columns SELECT relation, attnum, encoding
    FROM unnest(names, encodings) AS given (name, encoding) JOIN pg_attribute ON attrelid = relation AND attname = given.name
    ON CONFLICT ON CONSTRAINT redshift_columns_pkey DO UPDATE SET encoding = excluded.encoding;
END $$;
CREATE FUNCTION pg_catalog.redshift_declare_key(relation regclass, kind text, names text[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  numbers int[] := ARRAY(SELECT attnum::int FROM pg_attribute WHERE attrelid = relation AND attname = ANY (names) AND NOT attisdropped);
BEGIN
  PERFORM redshift_own(relation);
  IF cardinality(numbers) <> cardinality(names) THEN
    RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = 'a column named in the key does not exist';
  END IF;
  INSERT INTO redshift_keys VALUES (relation, kind, numbers);
END $$;
CREATE FUNCTION pg_catalog.redshift_describe_like(child regclass, parent regclass, temporary boolean)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  PERFORM redshift_own(child);
  IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = parent AND attidentity <> '') THEN
    RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'LIKE a table with an IDENTITY column is not carried out by the stand-in';
  END IF;
  INSERT INTO redshift_tables SELECT child, diststyle, distkey, sortkeys, encoded FROM redshift_tables WHERE relation = parent;
  INSERT INTO redshift_columns SELECT child, c.attnum, CASE WHEN temporary THEN 'none' ELSE encoding END
    FROM redshift_columns JOIN pg_attribute p ON p.attrelid = parent AND p.attnum = attribute
    JOIN pg_attribute c ON c.attrelid = child AND c.attname = p.attname WHERE relation = parent;
END $$;
CREATE FUNCTION pg_catalog.redshift_rename_column(relation regclass, before text, after text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  PERFORM redshift_own(relation);
  UPDATE redshift_tables t SET distkey = CASE WHEN distkey = before THEN after ELSE distkey END,
    sortkeys = array_replace(sortkeys, before, after) WHERE t.relation = redshift_rename_column.relation;
END $$;
-- Why a VARCHAR column may not change its width, or NULL (fact 4, ALTER TABLE).
CREATE FUNCTION pg_catalog.redshift_why_not_widen(relation regclass, name text, width int)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  found pg_attribute;
  longest int;
BEGIN
  PERFORM redshift_own(relation);
  SELECT a.* INTO found FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = name AND NOT a.attisdropped;
  IF found IS NULL OR found.attnum IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = 'column "' || name || '" of relation "' || relation || '" does not exist';
  END IF;
  IF found.atttypid <> 'varchar'::regtype THEN
    RETURN 'target data type is not supported';
  ELSIF redshift_encoding(relation, found.attnum) IN ('bytedict', 'runlength', 'text255', 'text32k') THEN
    RETURN 'column encoding is ' || redshift_encoding(relation, found.attnum);
  ELSIF found.atthasdef THEN
    RETURN 'column has a default';
  ELSIF EXISTS (SELECT FROM redshift_keys k WHERE k.relation = redshift_why_not_widen.relation AND found.attnum = ANY (k.columns)) THEN
    RETURN 'column is part of a key';
  END IF;
  EXECUTE format('SELECT max(octet_length(%I)) FROM %s', name, relation) INTO longest;
  IF longest > width THEN
    RETURN 'target column size should be larger or equal to current maximum column size';
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION pg_catalog.redshift_long_name(short text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog
  RETURN coalesce((SELECT n.long FROM redshift_names n WHERE n.short = redshift_long_name.short), short);

-- Before a statement touches tables: is each older than the snapshot (1018), and may we write (one writer to a
-- table at a time, until COMMIT)? Being a SELECT, it takes the snapshot before it waits, as Redshift does.
-- Names are looked up by the caller, whose search_path it is; one that is not found is left to PostgreSQL to refuse.
CREATE FUNCTION pg_catalog.redshift_enter(reads regclass[], writes regclass[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  relation regclass;
BEGIN
  FOREACH relation IN ARRAY writes LOOP
    IF relation IS NOT NULL AND EXISTS (SELECT FROM pg_class WHERE oid = relation AND relkind IN ('r', 'p')) THEN
      EXECUTE 'LOCK TABLE ' || relation || ' IN SHARE ROW EXCLUSIVE MODE';
    END IF;
  END LOOP;
  FOREACH relation IN ARRAY reads || writes LOOP
    IF relation IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class WHERE oid = relation) THEN
      RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = '1018', DETAIL = 'Relation does not exist.';
    END IF;
  END LOOP;
END $$;

-- System views. Rows of others are hidden from ordinary users.
CREATE VIEW pg_catalog.sys_load_history AS
  SELECT query_id, session_id, database_name, table_name, start_time, end_time,
         (extract(epoch FROM end_time - start_time) * 1000000)::bigint AS duration, 'parquet'::varchar AS file_format,
         data_source, loaded_rows, loaded_bytes, source_file_count, status, error_message
  FROM redshift_loads WHERE user_name = session_user OR pg_has_role(session_user, 'redshift_superuser', 'MEMBER');
CREATE VIEW pg_catalog.sys_load_error_detail AS
  SELECT query_id, session_id, database_name, table_id, start_time, file_name, line_number, column_name, column_type,
         column_length, error_code, error_message
  FROM redshift_load_errors WHERE user_name = session_user OR pg_has_role(session_user, 'redshift_superuser', 'MEMBER');
CREATE VIEW pg_catalog.stl_load_errors AS
  SELECT query_id AS query, session_id AS session, table_id AS tbl, start_time AS starttime, left(file_name, 256) AS filename, line_number,
         left(column_name, 127) AS colname, left(column_type, 10) AS type, left(column_length, 10) AS col_length, error_code AS err_code,
         left(error_message, 100) AS err_reason
  FROM redshift_load_errors;
CREATE VIEW pg_catalog.stl_loaderror_detail AS SELECT * FROM stl_load_errors;
CREATE VIEW pg_catalog.stl_error AS SELECT session_id AS pid, error_code AS errcode, error_message AS error FROM redshift_load_errors;
CREATE VIEW pg_catalog.svl_s3log AS
  SELECT session_id AS pid, query_id AS query, 0 AS segment, 0 AS slice, start_time AS eventtime, error_message AS message FROM redshift_load_errors;
CREATE VIEW pg_catalog.stl_load_commits AS
  SELECT query_id AS query, data_source AS filename, loaded_rows AS lines_scanned FROM redshift_loads WHERE status = 'completed';

ALTER VIEW pg_catalog.pg_locks RENAME TO redshift_locks_behind;
ALTER VIEW pg_catalog.pg_stat_activity RENAME TO redshift_activity_behind;
CREATE VIEW pg_catalog.pg_stat_activity AS
  SELECT datid, datname, pid AS procpid, usesysid, usename, query AS current_query, query_start
  FROM redshift_activity_behind WHERE backend_type = 'client backend'
    AND (usename = session_user OR pg_has_role(session_user, 'redshift_superuser', 'MEMBER'));
CREATE VIEW pg_catalog.sys_connection_log AS
  SELECT 'authenticated'::varchar AS event, backend_start AT TIME ZONE 'UTC' AS record_time, pid AS session_id, usename::varchar AS user_name,
         datname::varchar AS database_name, application_name::varchar AS application_name
  FROM redshift_activity_behind WHERE backend_type = 'client backend'
    AND (usename = session_user OR pg_has_role(session_user, 'redshift_superuser', 'MEMBER'));
CREATE VIEW pg_catalog.pg_locks AS
  SELECT l.locktype, l.database, l.relation, l.transactionid AS transaction, l.pid, l.mode, l.granted
  FROM redshift_locks_behind l JOIN redshift_activity_behind a ON a.pid = l.pid
  WHERE (a.usename = session_user OR pg_has_role(session_user, 'redshift_superuser', 'MEMBER'))
    AND (l.relation IS NULL OR l.relation >= 16384);
CREATE VIEW pg_catalog.svv_transactions AS
  SELECT a.usename::text AS txn_owner, a.datname::text AS txn_db, a.backend_xid::text::bigint AS xid, l.pid, a.xact_start AT TIME ZONE 'UTC' AS txn_start,
         CASE WHEN l.mode = 'AccessExclusiveLock' THEN l.mode WHEN l.mode = 'AccessShareLock' THEN l.mode
              WHEN l.locktype <> 'relation' THEN l.mode ELSE 'ShareRowExclusiveLock' END AS lock_mode,
         CASE WHEN l.locktype IN ('relation', 'transactionid') THEN l.locktype ELSE 'relation' END AS lockable_object_type,
         l.relation, l.granted
  FROM redshift_locks_behind l JOIN redshift_activity_behind a ON a.pid = l.pid
  WHERE l.locktype IN ('relation', 'transactionid') AND (l.relation IS NULL OR l.relation >= 16384)
    AND (a.usename = session_user OR pg_has_role(session_user, 'redshift_superuser', 'MEMBER'));
CREATE VIEW pg_catalog.stv_sessions AS
  SELECT backend_start AT TIME ZONE 'UTC' AS starttime, pid AS process, usename::text AS user_name, datname::text AS db_name
  FROM redshift_activity_behind WHERE backend_type = 'client backend' AND usename = session_user;
CREATE FUNCTION pg_catalog.redshift_isolation() RETURNS varchar LANGUAGE sql STABLE RETURN
  CASE redshift_setting_behind('default_transaction_isolation') WHEN 'serializable' THEN 'Serializable' ELSE 'Snapshot Isolation' END;
CREATE VIEW pg_catalog.svv_redshift_databases AS
  SELECT {database}::varchar AS database_name, 100 AS database_owner, 'local'::varchar AS database_type,
         NULL::varchar AS database_acl, NULL::varchar AS database_options, redshift_isolation() AS database_isolation_level;
CREATE VIEW pg_catalog.stv_db_isolation_level AS
  SELECT {database}::varchar AS db_name, redshift_isolation() AS isolation_level;

CREATE FUNCTION pg_catalog.redshift_encoding(relation oid, attribute int) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog
  RETURN coalesce((SELECT c.encoding FROM redshift_columns c WHERE c.relation = redshift_encoding.relation AND c.attribute = redshift_encoding.attribute), 'none');
CREATE FUNCTION pg_catalog.redshift_table(relation oid) RETURNS redshift_tables LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS
  'SELECT t.* FROM redshift_tables t WHERE t.relation = redshift_table.relation';
CREATE VIEW pg_catalog.pg_table_def AS
  SELECT n.nspname AS schemaname, redshift_long_name(c.relname)::varchar AS tablename, redshift_long_name(a.attname)::varchar AS "column",
         format_type(a.atttypid, a.atttypmod)::varchar AS type, redshift_encoding(c.oid, a.attnum)::varchar AS encoding,
         coalesce((redshift_table(c.oid)).distkey = a.attname::text, false) AS distkey,
         coalesce(array_position((redshift_table(c.oid)).sortkeys, a.attname::text), 0) AS sortkey, a.attnotnull AS "notnull"
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
  WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname = ANY (current_schemas(false));
CREATE VIEW pg_catalog.svv_tables AS
  SELECT table_catalog, table_schema, redshift_long_name(table_name)::varchar AS table_name, table_type, NULL::varchar AS remarks
  FROM information_schema.tables WHERE table_name NOT LIKE 'redshift\_%';
CREATE VIEW pg_catalog.svv_columns AS
  SELECT table_catalog, table_schema, redshift_long_name(table_name)::varchar AS table_name, redshift_long_name(column_name)::varchar AS column_name,
         ordinal_position, column_default, is_nullable, data_type, character_maximum_length, numeric_precision, numeric_scale, datetime_precision
  FROM information_schema.columns WHERE table_name NOT LIKE 'redshift\_%';
-- Rows are counted where that waits for nobody; a locked table tells what the last ANALYZE found.
CREATE FUNCTION pg_catalog.redshift_count(relation oid) RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
  counted bigint;
BEGIN
  BEGIN
    EXECUTE 'LOCK TABLE ' || relation::regclass || ' IN ACCESS SHARE MODE NOWAIT';
  EXCEPTION WHEN lock_not_available THEN
    RETURN (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = relation);
  END;
  EXECUTE 'SELECT count(*) FROM ' || relation::regclass INTO counted;
  RETURN counted;
END $$;
CREATE VIEW pg_catalog.svv_table_info AS
  SELECT current_database()::varchar AS database, n.nspname::varchar AS schema, c.oid AS table_id, redshift_long_name(c.relname)::varchar AS "table",
         CASE WHEN (redshift_table(c.oid)).encoded = 'auto' THEN 'Y, AUTO(ENCODE)' ELSE 'Y' END AS encoded,
         (redshift_table(c.oid)).diststyle AS diststyle,
         coalesce((redshift_table(c.oid)).sortkeys[1], 'AUTO(SORTKEY)') AS sortkey1,
         (SELECT coalesce(max(atttypmod - 4), 0) FROM pg_attribute WHERE attrelid = c.oid AND atttypid = 'varchar'::regtype) AS max_varchar,
         ceil(pg_table_size(c.oid) / 1048576.0)::bigint AS size, redshift_count(c.oid)::numeric(38, 0) AS tbl_rows
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND redshift_count(c.oid) > 0
    AND pg_has_role(session_user, c.relowner, 'USAGE');

GRANT SELECT ON pg_catalog.sys_load_history, pg_catalog.sys_load_error_detail, pg_catalog.pg_locks, pg_catalog.svv_transactions,
  pg_catalog.pg_stat_activity, pg_catalog.sys_connection_log, pg_catalog.stv_sessions, pg_catalog.svv_redshift_databases, pg_catalog.stv_db_isolation_level, pg_catalog.pg_table_def,
  pg_catalog.svv_tables, pg_catalog.svv_columns, pg_catalog.svv_table_info TO PUBLIC;
GRANT SELECT ON pg_catalog.stl_load_errors, pg_catalog.stl_loaderror_detail, pg_catalog.stl_error, pg_catalog.svl_s3log,
  pg_catalog.stl_load_commits TO redshift_superuser;
