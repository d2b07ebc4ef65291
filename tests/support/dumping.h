/*
 * dumping.h - dumps of a test's own: a registry (sets.h) with the parts of the
 * archive thread that build dumps, in steps that the test takes.
 *
 *     struct dumping d;
 *
 *     dumping_open(&d, state);
 *     dumping_post(&d, 1, "created", "some text");
 *     sets_rotate(&d.sets, "demo");
 *     dumping_work(&d);
 *     ... dumping_current(&d), dumping_read(...) ...
 *     dumping_end(&d);
 *
 * Documents belong to the set "demo", whose content is inline: Change Dumps, or
 * the kind in d.kind. Orders build Resource Lists and Resource Dumps. The test
 * has a tempdir.
 */
#ifndef TESTS_SUPPORT_DUMPING_H
#define TESTS_SUPPORT_DUMPING_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/archive/build_schedule.h"
#include "broker/archive/changedumps.h"
#include "broker/archive/state_fold.h"
#include "broker/documents/documents.h"
#include "tests/support/sets.h"
#include "tests/support/unzipped.h"
#include "tests/support/xpath.h"

#define DUMPING_DEMO SETS_URL "/sets/demo/"

struct dumping {
    struct sets sets;
    struct state_fold folding;
    struct contents *contents;
    struct changedumps dumps;
    struct thread thread; /* only to be woken */
    struct build_schedule schedule;
    enum generation_kind kind;
};

/* No grace. _end and _begin: as a restart. */
void dumping_open(struct dumping *d, void **state);
void dumping_begin(struct dumping *d);
void dumping_end(struct dumping *d);

/* Posts one change of http://example.com/r/N.txt, and places and pins the
 * bytes `text` as a post does; NULL: the change has no bytes and no hash. */
void dumping_post(struct dumping *d, unsigned number, const char *change,
                  const char *text);

/* Changes of `n` of them from number `from` on, in one post. */
void dumping_post_many(struct dumping *d, unsigned from, unsigned n,
                       const char *text);

/* As dumping_post, with a hash of bytes that are not there. */
void dumping_promise(struct dumping *d, unsigned number, const char *text);

/* The bytes of entry `seq` have been fetched, or never will be. */
void dumping_keep(struct dumping *d, uint64_t seq, const char *text);
void dumping_give_up(struct dumping *d, uint64_t seq);

/* The look at all sets that the archive thread takes each second; one round of
 * it (false: it found no work); both, until no work is left. */
void dumping_look(struct dumping *d);
bool dumping_round(struct dumping *d);
void dumping_work(struct dumping *d);

/* Orders a build at the head of the log and works until it is answered: lent
 * until the next order. */
const struct build_order *dumping_order(struct dumping *d,
                                        enum generation_kind kind);

/* The current one; and how many there are in the archive. */
struct generation dumping_current(struct dumping *d);
uint64_t dumping_n_archived(struct dumping *d);

/* Opens a document of that kind. */
enum status dumping_try(struct dumping *d, document_open_fn *open,
                        uint64_t number, uint64_t last,
                        struct document *document, struct problem *why);

/* Reads a document that must exist; XML is valid. */
void dumping_text(struct dumping *d, document_open_fn *open, uint64_t number,
                  uint64_t last, struct buf *text);
void dumping_read(struct dumping *d, document_open_fn *open, uint64_t number,
                  uint64_t last, struct xpath *x);

/* A package that must be there, checked. */
void dumping_unzip(struct dumping *d, uint64_t number, uint64_t part,
                   struct unzipped *u);

/* Generation `number` and its packages have the entries of the log between its
 * seqs, in the same order, without a gap, and its documents agree with each
 * other. */
void dumping_check(struct dumping *d, uint64_t number);

/* Resource Dump `number` has what the Resource List of the same `at` has, which
 * is the current one. */
void dumping_check_resources(struct dumping *d, uint64_t number);

#endif
