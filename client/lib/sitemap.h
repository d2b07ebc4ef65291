/*
 * sitemap.h - any document of ResourceSync, read for where it leads: its
 * entries and its root's links.
 *
 * Entries of a change list are read as well, but what happened in them is not:
 * that is proto/formats.h.
 */
#ifndef CLIENT_LIB_SITEMAP_H
#define CLIENT_LIB_SITEMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Lent until the function returns; empty where nothing was given. */
struct sitemap_entry {
    bool is_link;     /* of the root, else <url> or <sitemap> */
    struct slice rel; /* of a link; of an entry its capability */
    struct slice href;
    struct slice type;
    struct slice from;
    struct slice until;
};

/* Not 0 ends the reading with that status. */
typedef enum status sitemap_fn(const struct sitemap_entry *entry, void *user);

/* What its root says. */
struct sitemap_head {
    bool is_index;
    uint64_t n_entries;
    char from[32]; /* "" if it does not say */
};

/* STATUS_MALFORMED: it is no such document, `why` says more. STATUS_MEMORY. */
MUST_CHECK enum status sitemap_read(struct slice text,
                                    struct sitemap_head *head,
                                    sitemap_fn *on_entry, void *user,
                                    struct problem *why);

#endif
