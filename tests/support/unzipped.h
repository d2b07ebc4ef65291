/*
 * unzipped.h - what a ZIP package has, member by member, read into memory.
 *
 *     struct unzipped u;
 *
 *     unzipped_open(&u, bytes);
 *     ... u.members[0].name, unzipped_find(&u, "/resources/000000000001.txt")
 *     unzipped_close(&u);
 *
 * Fails the test if it cannot be read.
 */
#ifndef TESTS_SUPPORT_UNZIPPED_H
#define TESTS_SUPPORT_UNZIPPED_H

#include <stddef.h>

#include "proto/slice.h"

struct unzipped {
    struct unzipped_member {
        char *name;
        struct slice bytes;
    } * members;

    size_t n;
};

void unzipped_open(struct unzipped *u, struct slice bytes);
void unzipped_close(struct unzipped *u);

/* The member at a path of the manifest, which begins with a slash; NULL: there
 * is none. */
const struct unzipped_member *unzipped_find(const struct unzipped *u,
                                            const char *path);

/* the manifest is at the top level.
 * Exactly one of its entries names each other member, with a safe name, and
 * states its length and SHA-256; the manifest names nothing else.
 */
void unzipped_check(const struct unzipped *u);

#endif
