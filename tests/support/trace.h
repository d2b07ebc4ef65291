/*
 * trace.h - what a receiver of changes has heard: every entry once, in order.
 *
 * Whatever way the changes came (stream, process, pull), what counts in the end
 * is the same: a sequence without gap, repeats dropped by seq, and its digest.
 * The rules of one history are checked as it grows: consecutive seqs, strictly
 * increasing times, a repeat that says the same as the first time.
 *
 * Nothing here ends a test, so a trace may grow on any thread; false means that
 * a rule was broken, and `why` says which.
 */
#ifndef TESTS_SUPPORT_TRACE_H
#define TESTS_SUPPORT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/datetime.h"
#include "proto/hash.h"
#include "proto/problem.h"
#include "tests/support/xmldoc.h"

struct trace_entry {
    char *loc;
    char datetime[DATETIME_SIZE + 1];
    char change[8];
    struct digest digest; /* of the log up to it, if the trace has digests */
};

struct trace {
    uint64_t after; /* the first entry is the one after this */
    uint64_t last;  /* the last entry heard; `after`: none so far */
    char epoch[17]; /* "": not told yet */
    bool has_digests;
    struct digest start;                /* d(after), if it has digests */
    char start_time[DATETIME_SIZE + 1]; /* T(after), where a heartbeat told */
    struct trace_entry *entries; /* entry seq is entries[seq - after - 1] */
    size_t capacity;
    size_t n_repeats;
};

/* From the beginning of the set's log: after 0, and its digests from there. */
void trace_init(struct trace *t);

/* From a position on; digests as soon as d(after) is told. */
void trace_init_after(struct trace *t, uint64_t after);
void trace_fini(struct trace *t);

/* NULL: not heard. */
const struct trace_entry *trace_at(const struct trace *t, uint64_t seq);

/* d(seq); NULL: not known. */
const struct digest *trace_digest(const struct trace *t, uint64_t seq);

/* An entry without its bytes: the trace has no digests then. */
bool trace_add(struct trace *t, uint64_t seq, const char *datetime,
               const char *change, const char *loc, struct problem *why);

/* A message or Change List: the entries it covers, the digest it tells and the
 * times it tells, all against what was heard and against its own bytes. */
bool trace_document(struct trace *t, const struct xmldoc *d,
                    struct problem *why);

/* The epoch, told for the first time or again; documents tell it themselves. */
bool trace_epoch(struct trace *t, const char *epoch, struct problem *why);

/* A fragment alone, `<url>...</url>` and newline, rs and td undeclared. For
 * digests the epoch is to be told before. */
bool trace_line(struct trace *t, struct slice line, struct problem *why);

/* What a party tells of its last entry is what this trace has there. */
bool trace_check_digest(const struct trace *t, uint64_t seq, const char *digest,
                        struct problem *why);

/* Both end at the same entry, and are the same where both have entries. */
bool trace_is_same(const struct trace *a, const struct trace *b,
                   struct problem *why);

#endif
