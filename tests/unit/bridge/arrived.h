/*
 * arrived.h - what has come into a set by a bridge.
 */
#ifndef TESTS_UNIT_BRIDGE_ARRIVED_H
#define TESTS_UNIT_BRIDGE_ARRIVED_H

#include <stdint.h>

#include "proto/resourcesync/vocab.h"
#include "tests/support/sets.h"

/* Bodies with the entry http://example.com/ and a word. */
#define ENTRY(n) "{\"loc\":\"http://example.com/" n "\",\"change\":\"updated\"}"
#define XML_BODY(n)                                        \
    "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>" \
    "<rs:md capability='changelist'/>"                     \
    "<url><loc>http://example.com/" n "</loc>"             \
    "<rs:md change='updated'/></url></urlset>"

/* The last seq of a set; 0: there is none. */
uint64_t arrived_last(struct sets *s, const char *set);

/* The entries of the set are http://example.com/ and one of these words, in
 * order. */
void arrived_assert(struct sets *s, const char *set, const char *words);

#endif
