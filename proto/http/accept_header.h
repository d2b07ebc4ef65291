/*
 * accept_header.h - which of the media types that we have a client likes best
 * (RFC 9110 section 12.5.1).
 */
#pragma once

#include "proto/slice.h"

/* The number of the offer ("application/json", lower case, no parameters) that
 * the header's value prefers; -1: it accepts none. Of equals, the first. The
 * most specific range counts for an offer: "text/xml", then those with a star.
 * Skips faulty ranges, and parameters other than q. Empty, or nothing but
 * faulty ranges: any. "*" is what Java calls all. */
int accept_choose(struct slice header, const char *const *offers, size_t n);

/* Does it name the media type `type` itself ("text/event-stream", in lower
 * case), and not as unacceptable? Ranges do not count: they are what a client
 * sends that has nothing in mind. */
bool accept_names(struct slice header, const char *type);

/* Does it prefer a page for people? Such a header names text/html. That of a
 * person gives no type for programs a higher quality, and types for programs
 * that it names a lower one. Crawlers and the libraries of some languages send
 * the same: that of anybody else accepts no type for programs. */
bool accept_prefers_page(struct slice header, bool is_person);

/* Takes an element of a list (','), or the value or a parameter of one (';'),
 * off the front; trimmed. A separator in quotes separates nothing. */
struct slice accept_take(struct slice *rest, char separator);

/* The weight that the parameters of an element say, "q=0.5", in thousandths;
 * 1000 without one; -1: it is malformed. */
int accept_weight(struct slice parameters);
