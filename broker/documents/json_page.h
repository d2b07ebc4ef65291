/*
 * json_page.h - an object of JSON as a page for people: of a set, of a problem.
 *
 * The page is made of the JSON that programs get, so it says the same. Members
 * become a list of terms, objects in them lists of their own. Links, objects
 * with `rel` and `href`, become links.
 */
#ifndef BROKER_DOCUMENTS_JSON_PAGE_H
#define BROKER_DOCUMENTS_JSON_PAGE_H

#include <stdbool.h>

#include "broker/documents/page.h"
#include "proto/buf.h"
#include "proto/slice.h"

/* Appends the page of `json` to `to`, which is empty. False: it is no JSON, or
 * there is no memory; then `to` is void. */
bool json_page_write(struct buf *to, const struct page_head *head,
                     struct slice json);

/* Appends the page of a problem (RFC 9457), the answer to a request for
 * `path`. For server_options.write_problem. */
void json_page_write_problem(struct buf *to, unsigned status, struct slice path,
                             struct slice problem);

#endif
