-- The outbox of Tidings in a database of yours: what a transaction gives to
-- tidings_publish(), a broker with --postgresql posts, once and in the order of
-- the commits. Blank lines separate the statements.

-- The name of this outbox. Change it after a restore of an older backup.
CREATE TABLE IF NOT EXISTS tidings_outbox_state (
    one integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    id  text NOT NULL DEFAULT gen_random_uuid()::text
);

INSERT INTO tidings_outbox_state DEFAULT VALUES ON CONFLICT DO NOTHING;

CREATE SEQUENCE IF NOT EXISTS tidings_outbox_numbers;

-- A row for each transaction and each set that it publishes to.
CREATE TABLE IF NOT EXISTS tidings_outbox_commits (
    xid      xid8 NOT NULL,
    set_name text NOT NULL,
    number   bigint,
    PRIMARY KEY (xid, set_name)
);

CREATE INDEX IF NOT EXISTS tidings_outbox_order
    ON tidings_outbox_commits (set_name, number) WHERE number IS NOT NULL;

CREATE TABLE IF NOT EXISTS tidings_outbox (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid      xid8 NOT NULL,
    set_name text NOT NULL,
    entry    json NOT NULL
);

CREATE INDEX IF NOT EXISTS tidings_outbox_of_commit
    ON tidings_outbox (xid, set_name, id);

-- The brokers' own: the end of the batch under way, and why it cannot be posted.
CREATE TABLE IF NOT EXISTS tidings_outbox_sets (
    set_name text PRIMARY KEY,
    number   bigint,
    id       bigint,
    broker   text NOT NULL,
    at       timestamptz NOT NULL,
    refused  text
);

-- Runs at COMMIT. Until the commit is visible to others no other transaction
-- gets a number for these sets: so the numbers of a set are in the order of the
-- commits, and whoever sees one sees all lower ones. The locks come in the same
-- order in all transactions. PREPARE TRANSACTION keeps them until the second
-- phase: others do not wait for that without end, but fail.
CREATE OR REPLACE FUNCTION tidings_outbox_number() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '30s' AS $$
BEGIN
    BEGIN
        PERFORM pg_advisory_xact_lock(1953064041, key)
            FROM (SELECT DISTINCT hashtext(c.set_name) AS key
                  FROM tidings_outbox_commits c
                  WHERE c.xid = pg_current_xact_id() ORDER BY key) AS sets;
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'tidings_publish: another transaction that publishes to the same set does not end: if it is prepared, pg_prepared_xacts names it; COMMIT PREPARED or ROLLBACK PREPARED ends it'
            USING ERRCODE = 'lock_not_available';
    END;
    UPDATE tidings_outbox_commits c SET number = nextval('tidings_outbox_numbers')
        WHERE c.xid = pg_current_xact_id() AND c.number IS NULL;
    RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS tidings_outbox_number ON tidings_outbox_commits;

CREATE CONSTRAINT TRIGGER tidings_outbox_number
    AFTER INSERT ON tidings_outbox_commits
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION tidings_outbox_number();

-- A path as it stands in a URL: percent-encoded, but for letters, digits and -._~/.
CREATE OR REPLACE FUNCTION tidings_escape(path text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(string_agg(CASE WHEN c COLLATE "C" ~ '[A-Za-z0-9._~/-]' THEN c
            ELSE upper(regexp_replace(encode(convert_to(c, 'UTF8'), 'hex'),
                                      '(..)', '%\1', 'g')) END, '' ORDER BY n), '')
        FROM regexp_split_to_table(path, '') WITH ORDINALITY AS letters(c, n)
$$;

-- Publishes an entry, as the broker takes it, with the transaction.
CREATE OR REPLACE FUNCTION tidings_publish(to_set text, entry json) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_variable
BEGIN
    IF to_set IS NULL OR to_set !~ '^[a-z0-9][a-z0-9._-]{0,63}$' THEN
        RAISE EXCEPTION 'tidings_publish: no set can be called "%": a name is 1 to 64 of a-z 0-9 . _ - and begins with a letter or digit', to_set
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF json_typeof(entry) IS DISTINCT FROM 'object'
        OR json_typeof(entry -> 'loc') IS DISTINCT FROM 'string'
        OR coalesce(entry ->> 'change', '') NOT IN ('created', 'updated', 'deleted')
    THEN
        RAISE EXCEPTION 'tidings_publish: an entry is an object with loc and change (created, updated or deleted), such as {"loc":"https://example.org/1","change":"created"}'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF entry ->> 'loc' !~ '^[A-Za-z][A-Za-z0-9+.-]*:[^[:space:][:cntrl:]]+$' THEN
        RAISE EXCEPTION 'tidings_publish: "%" is no URL: escape paths, as in ''https://example.org/'' || tidings_escape(path)', entry ->> 'loc'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO tidings_outbox_commits (xid, set_name)
        VALUES (pg_current_xact_id(), to_set) ON CONFLICT DO NOTHING;
    INSERT INTO tidings_outbox (xid, set_name, entry)
        VALUES (pg_current_xact_id(), to_set, entry);
END $$;

-- The same for jsonb, and for text: without that a literal could be either. They
-- have the rights of the caller, who needs those to tidings_publish(text, json).
CREATE OR REPLACE FUNCTION tidings_publish(to_set text, entry jsonb) RETURNS void
LANGUAGE sql BEGIN ATOMIC
    SELECT tidings_publish(to_set, entry::json);
END;

CREATE OR REPLACE FUNCTION tidings_publish(to_set text, entry text) RETURNS void
LANGUAGE sql BEGIN ATOMIC
    SELECT tidings_publish(to_set, entry::json);
END;

-- What the brokers call.

-- Gives the broker the next batch of the first set behind `behind`, by name, that
-- has entries: up to 1,000 or 4 MB of them, a line each. The broker has the set's
-- row until it has been silent for 10 seconds, by a clock that may have been set
-- back. A set whose batch was refused comes again after that time. `number` and
-- `id` are the end of the batch, which stays the same until it is done.
CREATE OR REPLACE FUNCTION tidings_outbox_next(of_broker text, behind text)
RETURNS TABLE (set_name text, number bigint, id bigint, key text, lines text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    mine tidings_outbox_sets;
BEGIN
    LOOP
        SELECT c.set_name INTO behind FROM tidings_outbox_commits c
            WHERE c.set_name > behind AND c.number IS NOT NULL
            ORDER BY c.set_name LIMIT 1;
        EXIT WHEN behind IS NULL;
        INSERT INTO tidings_outbox_sets AS s (set_name, broker, at)
            VALUES (behind, of_broker, now())
            ON CONFLICT ON CONSTRAINT tidings_outbox_sets_pkey
            DO UPDATE SET broker = of_broker, at = now()
            WHERE (s.broker = of_broker AND s.refused IS NULL)
                OR abs(extract(epoch FROM now() - s.at)) > 10
            RETURNING s.* INTO mine;
        CONTINUE WHEN mine IS NULL OR mine.broker IS NULL;
        IF mine.number IS NULL THEN
            -- It ends with a commit, unless the first one is too large.
            SELECT sums.number, sums.id INTO mine.number, mine.id FROM
                (SELECT next.number, next.id, row_number() OVER line AS nth,
                        sum(next.bytes) OVER line AS bytes,
                        lead(next.number) OVER line AS following
                 FROM (SELECT c.number, o.id, length(o.entry::text) AS bytes
                       FROM tidings_outbox_commits c
                       JOIN tidings_outbox o ON o.xid = c.xid AND o.set_name = c.set_name
                       WHERE c.set_name = behind AND c.number IS NOT NULL
                       ORDER BY c.number, o.id LIMIT 1001) AS next
                 WINDOW line AS (ORDER BY next.number, next.id)) AS sums
                WHERE sums.nth = 1 OR (sums.nth <= 1000 AND sums.bytes <= 4000000)
                ORDER BY (sums.following IS DISTINCT FROM sums.number) DESC,
                    sums.number DESC, sums.id DESC LIMIT 1;
            UPDATE tidings_outbox_sets s SET number = mine.number, id = mine.id
                WHERE s.set_name = behind;
        END IF;
        -- A line feed in JSON that PostgreSQL takes is white space.
        RETURN QUERY SELECT behind, mine.number, mine.id,
                state.id || '-' || mine.number || '-' || mine.id,
                (SELECT string_agg(translate(o.entry::text, E'\n\r', '  '), E'\n'
                                   ORDER BY c.number, o.id)
                 FROM tidings_outbox_commits c
                 JOIN tidings_outbox o ON o.xid = c.xid AND o.set_name = c.set_name
                 WHERE c.set_name = behind AND c.number <= mine.number
                     AND (c.number, o.id) <= (mine.number, mine.id))
            FROM tidings_outbox_state state;
        EXIT;
    END LOOP;
END $$;

-- Deletes the entries of a batch, unless another broker has.
CREATE OR REPLACE FUNCTION tidings_outbox_done(of_set text, to_number bigint, to_id bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE tidings_outbox_sets s SET number = NULL, id = NULL, refused = NULL
        WHERE s.set_name = of_set AND s.number = to_number AND s.id = to_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM tidings_outbox o USING tidings_outbox_commits c
        WHERE c.set_name = of_set AND c.number <= to_number
            AND o.xid = c.xid AND o.set_name = of_set
            AND (c.number, o.id) <= (to_number, to_id);
    DELETE FROM tidings_outbox_commits c
        WHERE c.set_name = of_set AND c.number <= to_number AND NOT EXISTS
            (SELECT FROM tidings_outbox o WHERE o.xid = c.xid AND o.set_name = of_set);
END $$;

-- Notes why a batch cannot be posted; the reason names its line, if that is known.
CREATE OR REPLACE FUNCTION tidings_outbox_refuse(of_set text, to_number bigint, to_id bigint,
                                                 line bigint, reason text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE tidings_outbox_sets s SET refused = coalesce(
            (SELECT 'the entry with the id ' || o.id || ': '
             FROM tidings_outbox_commits c
             JOIN tidings_outbox o ON o.xid = c.xid AND o.set_name = c.set_name
             WHERE line > 0 AND c.set_name = of_set AND c.number <= to_number
             ORDER BY c.number, o.id OFFSET greatest(line - 1, 0) LIMIT 1), '') || reason
        WHERE s.set_name = of_set AND s.number = to_number AND s.id = to_id;
END $$;

CREATE OR REPLACE FUNCTION tidings_outbox_refused() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT set_name || ': ' || refused FROM tidings_outbox_sets
        WHERE refused IS NOT NULL ORDER BY set_name LIMIT 1
$$;

-- All other functions have the rights of the tables' owner, and see no other tables of
-- these names. Nobody else may call them until the owner says so: GRANT EXECUTE ON
-- FUNCTION tidings_publish(text, json) TO ...
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace AND p.prosecdef
        AND (p.proname = 'tidings_publish' OR p.proname LIKE 'tidings\_outbox\_%')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END $$;
