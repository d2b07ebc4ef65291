/*
 * again.h - writes accepted changes in every form, reads them back, and
 * compares.
 *
 *     struct again a;
 *
 *     again_open(&a);
 *     input_reader_new(format, INPUT_POST, max, again_add, &a) ...
 *     fault = again_check(&a);
 *     again_close(&a);
 *
 * It goes the way of an entry through the broker: fragment, stamp, Change List;
 * read back from there, JSON message; and each of them posted again, as they
 * are and as NDJSON. fragment_read must give the same change and the same JSON
 * as the XML parser. It needs only proto/, so the fuzz targets can use it as
 * well.
 */
#ifndef TESTS_SUPPORT_AGAIN_H
#define TESTS_SUPPORT_AGAIN_H

#include "proto/buf.h"
#include "proto/resourcesync/change.h"

struct again {
    uint64_t n;         /* changes */
    struct buf told;    /* the changes as our own documents describe them */
    struct buf posted;  /* the part of `told` that survives another post */
    struct buf list;    /* the fragments, stamped */
    struct buf read;    /* fragment_read of each, described ... */
    struct buf direct;  /* ... and in JSON, commas between */
    struct buf entries; /* what the XML parser read, in JSON, commas between */
    struct buf lines;   /* likewise, one a line */
    struct buf got;     /* the changes that were read back last, described */
    const char *fault;  /* the fault that again_add found; NULL: none */
};

void again_open(struct again *a);
void again_close(struct again *a);

/* A change_fn, of `user` = the struct again. STATUS_INVALID: its fragment would
 * be too long, as in a post. */
enum status again_add(const struct change *change, void *user,
                      struct problem *why);

/* Returns the way that does not give back the added changes; NULL: none.
 * `a->got` then has the changes of that way. */
const char *again_check(struct again *a);

#endif
