/*
 * zips.h - ZIP packages for tests, odd ones too: any name, names twice, links,
 * encrypted members.
 *
 *     struct zips z;
 *
 *     zips_begin(&z, dir_fd, "package.zip");
 *     zips_add(&z, "manifest.xml", SLICE("<urlset .../>"));
 *     zips_add(&z, "../evil", SLICE("x"));
 *     zips_end(&z);
 */
#ifndef TESTS_SUPPORT_ZIPS_H
#define TESTS_SUPPORT_ZIPS_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/slice.h"

struct archive;

struct zips {
    struct archive *archive;
    int fd;
    bool is_open;
};

/* Names of members are bytes of UTF-8. */
void zips_begin(struct zips *z, int dir_fd, const char *name);

/* All members from here on are encrypted. Directly after zips_begin. */
void zips_encrypt(struct zips *z);

void zips_add(struct zips *z, const char *name, struct slice bytes);
void zips_add_link(struct zips *z, const char *name, const char *target);
void zips_add_folder(struct zips *z, const char *name);

/* `size` zeros: a bomb of a thousandth of that. */
void zips_add_zeros(struct zips *z, const char *name, size_t size);

void zips_end(struct zips *z);

#endif
