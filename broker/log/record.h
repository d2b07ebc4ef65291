/*
 * record.h - one commit as bytes: what a broker sends to the others of
 * its cluster.
 *
 *     acts --record_write--> bytes --journal--> bytes --record_read--> acts
 *
 * A record has the acts that all brokers share, in their order, and the time of
 * their round. Local acts (act.h) are left out, and so are the members of
 * shared acts that are local. Whoever reads it gets acts that an engine applies
 * as the writer's engine did: no clock, path or setting of the reader goes in.
 *
 *     record = 1 time n act*n
 *            | 2 size deflated            of a record of that size, as above
 *            | 3 time n act*n             that orders a list for the archive
 *            | 7 time n act*n             with a new epoch
 *            | 6 size head size deflated  in two parts: the head is a record as
 *                                         above, without the bulk of its acts
 *     act    = kind set-id name field*
 *     bulk   = entry* and bytes of resources, in the order of the acts
 *     entry  = source-time size hole fragment      without its stamp
 *
 * Those of many entries, without the bytes of resources, are deflated
 * (libdeflate's fastest level). Of posts of 100 entries that is a fifth of the
 * bytes, and each byte of a record is written by three PostgreSQL servers.
 *
 * A large record that another broker overtook goes in two parts. Its bulk is
 * the same whatever came before, so it can be at the server before this broker
 * asks for the turn (journal.h): seqs, event times and digests are in the head,
 * or follow from it.
 *
 * Numbers are LEB128 (proto/number.h); times too, after their sign was moved to
 * the lowest bit. Texts and bytes follow their size. record.c has the fields of
 * each kind in one table.
 *
 * A reader proves the digest of a record (journal.h) before it reads it. So a
 * record that record_read refuses is not damaged: another program wrote it.
 */
#pragma once

#include <stdatomic.h>

#include "broker/log/act.h"

/* Newer programs read older records. An older program stops at a newer record
 * until it is upgraded, too (doc/cluster.md). */
#define RECORD_VERSION 7

/* A larger record is not sent while other brokers wait for the turn. */
#define RECORD_LARGE ((size_t)262144)

/* The bulk of a record, as a record of version 6 has it. Begins as {.deflated =
 * {.max = SIZE_MAX}, .plain = {.max = SIZE_MAX}}; empty: there is none. */
struct bulk {
    struct buf plain;
    struct buf deflated;
};

/* Makes the bulk of a commit. It stays empty where a time in it does not follow
 * from the head, or without memory. */
void bulk_write(struct bulk *bulk, const struct commit *commit);

void bulk_clear(struct bulk *bulk);

/* Appends the record of a commit. *n_shared: so many of its acts went in. The
 * batches are complete (sequencer_finish). If the bulk of the commit is
 * `bulk` (NULL: there is none), the record ends with bulk->deflated. `to` fails
 * without memory. */
void record_write(struct buf *to, const struct commit *commit,
                  const struct bulk *bulk, size_t *n_shared);

/* A record that was read. The acts lend from its bytes and own their batches;
 * their `set` is NULL, their local members are 0. */
struct record {
    size_t size;   /* of its bytes, not deflated */
    char *plain;   /* its bytes or its bulk, if inflated; else NULL */
    int64_t at_us; /* commit.at_us */
    struct act *acts;
    size_t n, capacity;
};

/* Reads `bytes`, which are lent until record_fini. The forms of its batches are
 * counted in `forms`. Afterwards, also after a failure, record_fini.
 * STATUS_UNSUPPORTED: a newer program wrote it. STATUS_MALFORMED: it is no
 * record; `why` names the act. STATUS_MEMORY. */
MUST_CHECK enum status record_read(struct record *r, struct slice bytes,
                                   atomic_size_t *forms, struct problem *why);

void record_fini(struct record *r);
