/*
 * changing.h - resources that change all the time, for storms: files below a
 * directory that a web site serves, and what happened to them, in order.
 *
 *     changing_open(&c, 800, seed, changes);
 *     site_dir(site, CHANGING_PREFIX, c.files);
 *     changed = changing_change(&c);          one of them, on the disk at once
 *     changing_assert_mirrored(&c, dir, "127.0.0.1:8080");
 *
 * Change number N, from 1 on, makes a content of its own: no two are the same,
 * but some are empty. A file is replaced whole, by a rename.
 *
 * One thread at a time.
 */
#ifndef TESTS_SUPPORT_CHANGING_H
#define TESTS_SUPPORT_CHANGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "tests/support/tempdir.h"

#define CHANGING_PREFIX "/files/"

/* A die: the same seed, the same numbers. */
struct die {
    uint64_t state;
};

/* From 0 to n - 1. */
uint64_t die_roll(struct die *die, uint64_t n);

struct changed {
    uint32_t id;
    const char *kind; /* "created", "updated", "deleted" */
};

struct changing {
    struct tempdir dir;
    char files[300]; /* the directory of the resources */
    struct die die;
    uint32_t n;
    uint32_t *now; /* of each the change that made it; 0: it is not there */
    struct changed *all; /* number N is all[N - 1] */
    size_t n_all, max;
    struct buf text;
};

/* `n` resources, none of them there; at most `max` changes. */
void changing_open(struct changing *c, uint32_t n, uint64_t seed, size_t max);
void changing_close(struct changing *c); /* all zero is fine */

/* One of them changes; the answer is lent until the end. One in ten is deleted,
 * if it is there. */
const struct changed *changing_change(struct changing *c);

/* Where a resource is on the site: "/files/12/345.txt". Lent until the next
 * call of this thread. */
const char *changing_path(uint32_t id);

/* What change number `n` made of its resource. Lent until the next call. */
struct slice changing_text(struct changing *c, size_t n);

/* The same, as a normalised list: "sha-256:...". */
#define CHANGING_HASH_SIZE 73
void changing_hash(struct changing *c, size_t n, char to[CHANGING_HASH_SIZE]);

/* The mirror at `dir` has every resource there is, byte for byte, below `host`,
 * and no other file; nor was one of the user's found. */
#define changing_assert_mirrored(c, dir, host) \
    changing_assert_mirrored_at((c), (dir), (host), __FILE__, __LINE__)
void changing_assert_mirrored_at(struct changing *c, const char *dir,
                                 const char *host, const char *file, int line);

#endif
