/*
 * set_pages.h - sets as pages for people: one set, and the list of all.
 */
#ifndef BROKER_HTTP_SET_PAGES_H
#define BROKER_HTTP_SET_PAGES_H

#include "broker/net/response.h"
#include "broker/sets/registry.h"
#include "proto/buf.h"

/* Replaces `description`, the JSON of a set, by a page of it, and makes the
 * answer one. If that fails, the JSON stays. */
void set_pages_one(struct request *rq, struct response *r,
                   const struct set *set, struct buf *description);

/* Appends a row of the list. */
void set_pages_add_row(struct buf *to, struct set *set,
                       const struct head *head);

/* Appends the page with these rows. `next` is the URL of the next page, or
 * empty. */
void set_pages_list(struct buf *to, const struct request *rq, struct slice rows,
                    struct slice next);

#endif
