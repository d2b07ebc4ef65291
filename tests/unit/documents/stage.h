/*
 * stage.h - the stage of tests of documents: the sets of a broker in a
 * directory of their own, and documents of the set "demo".
 *
 *     FIXTURE(stage_setup, stage_teardown);
 *
 *     struct sets *s = *state;
 *
 *     s->config.rotate_entries = 2;
 *     sets_open(s);
 *     sets_post(s, "demo", 1, 11);
 *     stage_read(s, changelist_open, 1, 0, &x);
 */
#ifndef TESTS_UNIT_DOCUMENTS_STAGE_H
#define TESTS_UNIT_DOCUMENTS_STAGE_H

#include "broker/documents/documents.h"
#include "tests/support/bodies.h"
#include "tests/support/sets.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

/* *state is a struct sets, configured but not open; the teardown closes it. */
int stage_setup(void **state);
int stage_teardown(void **state);

/* The wish for a document of the set "demo" as it is now. */
struct document_wish stage_wish(struct sets *s, uint64_t number, uint64_t last,
                                enum log_patience patience);

/* Opens a document that must be there. */
struct document stage_open(struct sets *s, document_open_fn *open,
                           uint64_t number, uint64_t last);

/* Opens the document of `wish`, which must exist. */
struct body *stage_body(document_open_fn *open,
                        const struct document_wish *wish);

/* Parses the bytes of a document, and checks them against the schema. */
void stage_parse(struct body *body, struct xpath *x);

/* Appends the bytes of a document; returns how often its body waited. */
unsigned stage_text(struct sets *s, document_open_fn *open, uint64_t number,
                    uint64_t last, struct buf *text);

/* Opens and parses a document that must be there. */
void stage_read(struct sets *s, document_open_fn *open, uint64_t number,
                uint64_t last, struct xpath *x);

/* `open` refuses the wish with that status and, if `text` is not NULL, that
 * sentence. */
void stage_refuses(document_open_fn *open, const struct document_wish *wish,
                   enum status rc, const char *text);

#endif
