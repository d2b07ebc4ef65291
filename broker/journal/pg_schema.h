/*
 * pg_schema.h - the tables of a cluster in PostgreSQL.
 *
 * PG_SCHEMA makes them, and PG_SCHEMA_UPGRADE gives those of earlier versions
 * the columns of this one. A broker of an earlier version follows beside them:
 * each new column has a default. It gets no turn once a newer broker has
 * appended, for its turns rest on tidings_turn (pg_journal.h).
 *
 *     version 1    0.1
 *     version 2    tidings_records.at_us: the journal's time; 0: older
 *                  tidings_brokers.server: to which the row was reported
 *                  tidings_brokers.keep_bytes: --cluster-keep
 *                  tidings_leases.instance: the process that has it
 *                  tidings_notes: broker/cluster/streams.h
 *                  tidings_orders.lease: whose owner takes it
 *                  tidings_rows.band, is_deleted: in the indexes instead of n
 *                  and value
 *                  the lease and the stream "bridges" are one of each bridge
 *                  the lease "hub" is one of each part, "hub/0" to "hub/15"
 *     version 3    tidings_brokers.clock_us: of the broker, ahead of the
 *                  server's; at its last report
 *     version 4    tidings_brokers.chain: of its last record
 *                  tidings_brokers.state: "runs", or another name of a state
 *                  (broker/log/log.h), a space and the reason; "": not reported
 *
 * A change of the tables is made here, in a step of the next version, also for
 * new databases.
 */
#pragma once

/* The lock is for two programs at once. No program waits for a table that
 * others use for long, for all later ones would wait behind it. */
#define PG_SCHEMA_LOCK "PERFORM pg_advisory_xact_lock(5282143);"

/* A row that gets a new number stays in its band for the next 16,384 numbers
 * of the stream. Meanwhile no index changes, and PostgreSQL puts the new
 * version of the row beside the old one (HOT) if the page has room. */
#define PG_BAND "16384"

/* Writes the table anew: 5 s for a million rows. */
#define PUT_BANDS                                                          \
    " DROP INDEX IF EXISTS tidings_rows_stream_n_idx,"                     \
    "  tidings_rows_stream_n_idx1;"                                        \
    " ALTER TABLE tidings_rows SET (fillfactor = 50),"                     \
    "  ADD band bigint GENERATED ALWAYS AS (n / " PG_BAND ") STORED,"      \
    "  ADD is_deleted boolean GENERATED ALWAYS AS (value IS NULL) STORED;" \
    " CREATE INDEX ON tidings_rows(stream, band);"                         \
    " CREATE INDEX ON tidings_rows(stream, band) WHERE is_deleted;"

/* A broker of version 1 never gets this lease again. */
#define END_LEASE(name)                                                      \
    " INSERT INTO tidings_leases AS l VALUES('" name "', '', 1, 'infinity')" \
    "  ON CONFLICT(name) DO UPDATE SET broker = '', term = l.term + 1,"      \
    "  until = 'infinity';"

/* Its rows stay in one stream, and brokers of version 1 follow that. Their
 * orders go to the owner of the first part. */
#define DIVIDE_HUB END_LEASE("hub")

/* The lease and the stream of all bridges become those of each. A key begins
 * with the table, 00, 03, the size of the bridge's name in four bytes, and the
 * name (broker/cluster/owned_db.c). In a broker of version 1 its place in the
 * stream stays where it is. */
#define DIVIDE_BRIDGES                                                        \
    END_LEASE("bridges")                                                      \
    " UPDATE tidings_rows SET stream = 'bridges/' || convert_from(substring(" \
    "   key FROM position('\\x00'::bytea IN key) + 6 FOR"                     \
    "   get_byte(key, position('\\x00'::bytea IN key) + 4)), 'UTF8')"         \
    "  WHERE stream = 'bridges';"                                             \
    " INSERT INTO tidings_streams(name, n, forgotten, marked)"                \
    "  SELECT DISTINCT r.stream, s.n, forgotten, marked"                      \
    "  FROM tidings_rows r JOIN tidings_streams s ON name = 'bridges'"        \
    "  WHERE r.stream LIKE 'bridges/%';"

#define LACKS(column)                                                   \
    "NOT EXISTS (SELECT FROM pg_attribute WHERE attname = '" column "'" \
    " AND attrelid = to_regclass('tidings_brokers'))"
#define NO_CLOCKS LACKS("clock_us")
#define NO_STATES LACKS("state")

#define PG_SCHEMA_STEPS                                                    \
    "IF NOT EXISTS (SELECT FROM pg_attribute WHERE attname = 'version'"    \
    "  AND attrelid = 'tidings_cluster'::regclass) THEN"                   \
    " PERFORM set_config('lock_timeout', '300ms', true);"                  \
    " ALTER TABLE tidings_records"                                         \
    "  ADD at_us bigint NOT NULL DEFAULT 0;"                               \
    " ALTER TABLE tidings_brokers"                                         \
    "  ADD server bigint NOT NULL DEFAULT 0,"                              \
    "  ADD keep_bytes bigint NOT NULL DEFAULT 0;"                          \
    " ALTER TABLE tidings_leases"                                          \
    "  ADD instance text NOT NULL DEFAULT '';"                             \
    " ALTER TABLE tidings_orders"                                          \
    "  ADD lease text NOT NULL DEFAULT 'hub/0';" DIVIDE_HUB DIVIDE_BRIDGES \
        PUT_BANDS " CREATE TABLE tidings_notes(stream text NOT NULL,"      \
    "  n bigint NOT NULL, value bytea NOT NULL, PRIMARY KEY(stream, n));"  \
    " ALTER TABLE tidings_cluster"                                         \
    "  ADD version bigint NOT NULL DEFAULT 2;"                             \
    "END IF;"                                                              \
    "IF " NO_CLOCKS " THEN"                                                \
    " PERFORM set_config('lock_timeout', '300ms', true);"                  \
    " ALTER TABLE tidings_brokers ADD clock_us bigint;"                    \
    "END IF;"                                                              \
    "IF " NO_STATES " THEN"                                                \
    " PERFORM set_config('lock_timeout', '300ms', true);"                  \
    " ALTER TABLE tidings_brokers ADD chain bytea,"                        \
    "  ADD state text NOT NULL DEFAULT '';"                                \
    " ALTER TABLE tidings_cluster ALTER version SET DEFAULT 4;"            \
    " UPDATE tidings_cluster SET version = 4;"                             \
    "END IF;"

/* `bytes`: of all records up to this one. tidings_turn has one row, which is
 * locked and never written; its other columns are those of the last record that
 * a broker of version 1 has added. */
#define PG_SCHEMA                                                           \
    "DO $$ BEGIN " PG_SCHEMA_LOCK                                           \
    " IF to_regclass('tidings_cluster') IS NULL THEN"                       \
    "  CREATE TABLE tidings_cluster(one int PRIMARY KEY CHECK (one = 1),"   \
    "   public_url text NOT NULL);"                                         \
    "  CREATE TABLE tidings_brokers(name text PRIMARY KEY,"                 \
    "   instance text NOT NULL, at timestamptz NOT NULL,"                   \
    "   n bigint NOT NULL DEFAULT 0,"                                       \
    "   is_reader boolean NOT NULL DEFAULT false);"                         \
    "  CREATE TABLE tidings_records(n bigint PRIMARY KEY,"                  \
    "   chain bytea NOT NULL, broker text NOT NULL, bytes bigint NOT NULL," \
    "   record bytea NOT NULL);"                                            \
    "  ALTER TABLE tidings_records ALTER record SET STORAGE EXTERNAL;"      \
    "  CREATE TABLE tidings_turn(one int PRIMARY KEY CHECK (one = 1),"      \
    "   n bigint NOT NULL, chain bytea NOT NULL, at_us bigint NOT NULL,"    \
    "   bytes bigint NOT NULL) WITH (fillfactor = 10);"                     \
    "  CREATE TABLE tidings_leases(name text PRIMARY KEY,"                  \
    "   broker text NOT NULL, term bigint NOT NULL,"                        \
    "   until timestamptz NOT NULL) WITH (fillfactor = 10);"                \
    "  CREATE TABLE tidings_streams(name text PRIMARY KEY,"                 \
    "   id bigint NOT NULL DEFAULT 1 + (random() * 9e15)::bigint,"          \
    "   n bigint NOT NULL, forgotten bigint NOT NULL DEFAULT 0,"            \
    "   marked bigint NOT NULL DEFAULT 0,"                                  \
    "   marked_at timestamptz NOT NULL DEFAULT now())"                      \
    "   WITH (fillfactor = 10);"                                            \
    "  CREATE TABLE tidings_rows(stream text NOT NULL, key bytea NOT NULL," \
    "   n bigint NOT NULL, value bytea, PRIMARY KEY(stream, key));"         \
    "  CREATE INDEX ON tidings_rows(stream, n);"                            \
    "  CREATE INDEX ON tidings_rows(stream, n) WHERE value IS NULL;"        \
    "  CREATE TABLE tidings_orders(id bigserial PRIMARY KEY,"               \
    "   broker text NOT NULL, at timestamptz NOT NULL,"                     \
    "   term bigint NOT NULL, bytes bytea NOT NULL, answer bytea);"         \
    " END IF; " PG_SCHEMA_STEPS " END $$"

#define PG_SCHEMA_UPGRADE \
    "DO $$ BEGIN " PG_SCHEMA_LOCK " " PG_SCHEMA_STEPS " END $$"

/* 1 if the database has tables of an earlier version. */
#define PG_SCHEMA_IS_OLD                                             \
    "(to_regclass('tidings_cluster') IS NOT NULL AND " NO_STATES ")" \
    "::int::bigint"
