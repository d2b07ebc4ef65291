/*
 * link_header.h - the Link header (RFC 8288), both ways.
 *
 *     Link: <https://b.example/hub>; rel="hub", <https://b.example/t>; rel=self
 */
#pragma once

#include "proto/buf.h"

/* One link of a header; lends from it. */
struct weblink {
    struct slice target; /* between < and >, as it stands: perhaps relative */
    struct slice rel;    /* words with blanks between them, without quotes; the
                            first rel of the link; empty: none */
    bool is_of_another;  /* has an anchor: the link is another resource's (RFC
                            8288 section 3.2) */
};

/* Takes the next link off the front of `*rest`, the value of one Link header or
 * of several joined by commas (W-007: quoted and unquoted values; a comma or
 * semicolon within <> or quotes does not split). false: there is no more, or
 * what is left is malformed, and *link has nothing to rely on. */
bool weblink_next(struct slice *rest, struct weblink *link);

/* The target of the first link in `header` with that rel; *n (may be NULL): how
 * many links have it. Links with an anchor do not count, nor does anything from
 * the first malformed link on. false: none, and *target is empty. */
bool weblink_find(struct slice header, const char *rel, struct slice *target,
                  size_t *n);

/* Appends <target>; rel="rel", and ", " before it where `to` has something. The
 * target stands there as it is: without ">" and control characters, as what has
 * passed websub_check_url is; `rel`: without quotes. */
void weblink_add(struct buf *to, struct slice target, const char *rel);
