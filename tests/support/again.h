/*
 * again.h - what was accepted, written in every form and read back: the same?
 *
 *     struct again a;
 *
 *     again_open(&a);
 *     reader_new(format, READER_POST, max, again_add, &a) ...
 *     fault = again_check(&a);
 *     again_close(&a);
 *
 * It goes the way of an entry through the broker: fragment, stamp, Change List;
 * read back from there, JSON message; and each of them posted again, as they
 * are and as NDJSON. It needs nothing but proto/, so that the fuzz targets use
 * it as well.
 */
#ifndef TESTS_SUPPORT_AGAIN_H
#define TESTS_SUPPORT_AGAIN_H

#include "proto/buf.h"
#include "proto/change.h"

struct again {
    uint64_t n;         /* changes */
    struct buf told;    /* what our own documents tell of them, described */
    struct buf posted;  /* what is left of that when it is posted again */
    struct buf list;    /* the fragments, stamped */
    struct buf entries; /* in JSON, commas between */
    struct buf lines;   /* in JSON, one a line */
    struct buf got;     /* what was read back last, described */
    const char *fault;  /* what was wrong already when it was added */
};

void again_open(struct again *a);
void again_close(struct again *a);

/* A change_fn, of `user` = the struct again. STATUS_INVALID: its fragment would
 * be too long, as in a post. */
enum status again_add(const struct change *change, void *user,
                      struct problem *why);

/* Which way does not give back what was added; NULL: none. `a->got` is then
 * what came back. */
const char *again_check(struct again *a);

#endif
