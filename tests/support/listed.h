/*
 * listed.h - the documents of a source without Tidings, as such sources make
 * them: rewritten while they are read, one after the other; times to the
 * second; entries that have a lastmod and nothing else.
 *
 *     listed_open(&l, &changing, site_url(site), LISTED_INDEX, 60);
 *     listed_change(&l, 5);
 *     listed_write(&l, false);
 *
 * Below CHANGING's directory, in "rs/", to be served at LISTED_PREFIX:
 *
 *     description.xml, capabilities.xml
 *     resources.xml        Resource List Index, of three lists
 *     changes.xml          LISTED_WINDOW: a Change List of the latest changes,
 *                          without `from`
 *                          LISTED_INDEX: a Change List Index; the last of its
 *                          lists is latest.xml; when that is full it gets an
 *                          address of its own, later goes to archive.xml, later
 *                          away
 *
 * Its clock is its own, and no resource changes twice in a second.
 */
#ifndef TESTS_SUPPORT_LISTED_H
#define TESTS_SUPPORT_LISTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "tests/support/changing.h"

#define LISTED_PREFIX "/rs/"

enum listed_way { LISTED_WINDOW, LISTED_INDEX };

/* Closed lists in the index, and in all. */
#define LISTED_IN_INDEX 5U
#define LISTED_KEPT     20U

struct listed {
    struct changing *c;
    const char *url;
    enum listed_way way;
    size_t size; /* entries of the window, or of a list that is full */
    int64_t clock_s;
    int64_t *when_s; /* of each change */
    int64_t *last_s; /* of each resource */
    size_t *closed;  /* number of the last change of each closed list */
    size_t n_closed;
    struct buf text;
};

void listed_open(struct listed *l, struct changing *c, const char *url,
                 enum listed_way way, size_t size);
void listed_close(struct listed *l); /* all zero is fine */

/* So many changes, up to some seconds later. */
void listed_change(struct listed *l, unsigned n);

/* Rewrites what says so; `resources`: the Resource List, too. */
void listed_write(struct listed *l, bool resources);

#endif
