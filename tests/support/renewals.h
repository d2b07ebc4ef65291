/*
 * renewals.h - Resource Lists of a test's own: a registry (sets.h) with the
 * parts of the archive thread that build lists, in steps that the test takes.
 *
 *     struct renewals w;
 *
 *     renewals_open(&w, state);
 *     sets_post(&w.sets, "demo", 1, 25);
 *     renewals_work(&w);
 *     ... renewals_current(&w), renewals_read(...) ...
 *     renewals_end(&w);
 *
 * Documents are those of the set "demo". The test has a tempdir.
 */
#ifndef TESTS_SUPPORT_RENEWALS_H
#define TESTS_SUPPORT_RENEWALS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/archive/renewal.h"
#include "broker/documents/documents.h"
#include "tests/support/sets.h"
#include "tests/support/xpath.h"

#define RENEWALS_DEMO SETS_URL "/sets/demo/"

/* The parts of the archive thread. */
struct renewals {
    struct sets sets;
    struct thread thread; /* only to be woken */
    struct state_fold folding;
    struct renewal renewal;
    uint64_t random;
    enum document_form form; /* in which the test asks for documents */
    uint64_t page;           /* from 1 on */
};

/* Parts of 10 resources; a list as soon as a set has changed, none archived; no
 * grace. _end and _begin: as a restart. */
void renewals_open(struct renewals *w, void **state);
/* Only configures them, with data in `path`: renewals_begin follows. */
void renewals_configure(struct renewals *w, const char *path);
void renewals_begin(struct renewals *w);
void renewals_end(struct renewals *w);

/* The look at all sets that the archive thread takes each second; one round of
 * it (false: it found no work); both, until no work is left. */
void renewals_look(struct renewals *w);
bool renewals_round(struct renewals *w);
void renewals_work(struct renewals *w);

struct generation renewals_current(struct renewals *w);

/* Opens a document. */
enum status renewals_try(struct renewals *w, document_open_fn *open,
                         uint64_t number, uint64_t last,
                         struct document *document);

/* Reads a document that must exist; XML is valid. */
void renewals_text(struct renewals *w, document_open_fn *open, uint64_t number,
                   uint64_t last, struct buf *text);
void renewals_read(struct renewals *w, document_open_fn *open, uint64_t number,
                   uint64_t last, struct xpath *x);

/* The current list, or its index and parts, is what the log says that the set
 * was then; its resources are those of model.h. */
void renewals_check(struct renewals *w);

#endif
