/*
 * build_orders.h - Resource Lists of a test's own: a registry (sets.h) with the
 * parts of the archive thread that build lists, in steps that the test takes.
 *
 *     struct build_orders w;
 *
 *     build_orders_open(&w, state);
 *     sets_post(&w.sets, "demo", 1, 25);
 *     build_orders_work(&w);
 *     ... build_orders_current(&w), build_orders_read(...) ...
 *     build_orders_end(&w);
 *
 * Documents are those of the set "demo". The test has a tempdir.
 */
#ifndef TESTS_SUPPORT_BUILD_ORDERS_H
#define TESTS_SUPPORT_BUILD_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/archive/build_schedule.h"
#include "broker/documents/documents.h"
#include "tests/support/sets.h"
#include "tests/support/xpath.h"

#define RENEWALS_DEMO SETS_URL "/sets/demo/"

/* The parts of the archive thread. */
struct build_orders {
    struct sets sets;
    struct thread thread; /* only to be woken */
    struct state_fold folding;
    struct build_schedule schedule;
    uint64_t random;
    enum document_form form; /* in which the test asks for documents */
    uint64_t page;           /* from 1 on */
};

/* Parts of 10 resources; a list as soon as a set has changed, none archived; no
 * grace. _end and _begin: as a restart. */
void build_orders_open(struct build_orders *w, void **state);
/* Only configures them, with data in `path`: build_orders_begin follows. */
void build_orders_configure(struct build_orders *w, const char *path);
void build_orders_begin(struct build_orders *w);
void build_orders_end(struct build_orders *w);

/* The look at all sets that the archive thread takes each second; one round of
 * it (false: it found no work); both, until no work is left. */
void build_orders_look(struct build_orders *w);
bool build_orders_round(struct build_orders *w);
void build_orders_work(struct build_orders *w);

struct generation build_orders_current(struct build_orders *w);

/* Opens a document. */
enum status build_orders_try(struct build_orders *w, document_open_fn *open,
                             uint64_t number, uint64_t last,
                             struct document *document);

/* Reads a document that must exist; XML is valid. */
void build_orders_text(struct build_orders *w, document_open_fn *open,
                       uint64_t number, uint64_t last, struct buf *text);
void build_orders_read(struct build_orders *w, document_open_fn *open,
                       uint64_t number, uint64_t last, struct xpath *x);

/* The current list, or its index and parts, is what the log says that the set
 * was then; its resources are those of model.h. */
void build_orders_check(struct build_orders *w);

#endif
