/*
 * fold.h - a set folded: what its entries, one after the other, say that there
 * is, compared with the files of a directory.
 *
 *     struct fold f;
 *
 *     fold_open(&f, b.url, "files", "http://example.com/files/");
 *     fold_await(&f, dir);           the set says what the directory holds
 *     assert_int_equal(fold_count(&f, "a.csv"), 1);    entries about it
 *     fold_close(&f);
 *
 * Each entry is checked against those before it: "created" what was not there,
 * "updated" what was there and is something else now, "deleted" what was there.
 * So an entry that was lost or posted twice fails the test.
 */
#ifndef TESTS_SUPPORT_FOLD_H
#define TESTS_SUPPORT_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/http.h"
#include "tests/test.h"

struct fold {
    struct http http;
    const char *base;
    char path[200]; /* of the change memory */
    uint64_t last;  /* entries read so far */
    void *by_loc;   /* tsearch */
};

/* What is known of a resource. */
struct folded {
    char *loc;
    char change[8];
    char sha256[65];
    char type[64];
    char lastmod[40];
    uint64_t length;
    unsigned n; /* entries about it */
};

void fold_open(struct fold *f, const char *url, const char *set,
               const char *base);
void fold_close(struct fold *f);

/* Begins again with the first entry: the set is another one. */
void fold_forget(struct fold *f);

/* Reads what is new. A set that is not there yet has nothing. */
void fold_read(struct fold *f);

/* Of the file `path`, as bytes; NULL: no entry was about it. */
const struct folded *fold_of(struct fold *f, const char *path);
unsigned fold_count(struct fold *f, const char *path);

/* Waits until the last entry about `path` says `change`. */
const struct folded *fold_await_change(struct fold *f, const char *path,
                                       const char *change);

/* Waits until the resources that are there are the files below `dir`, symbolic
 * links and folders called .tidings excepted, and with these digests. */
void fold_await(struct fold *f, const char *dir);

#endif
