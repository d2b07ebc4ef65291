/*
 * resourcelist.h - the Resource List of a set, as a stranger reads it: from the
 * Capability List to the list, or to its index and all parts.
 *
 *     struct resourcelist r;
 *
 *     resourcelist_open(&r, &broker, "demo", 1000);
 *     resourcelist_begin(&r);       the current list, or its index
 *     resourcelist_end(&r);         all parts of it
 *     ... r.last, r.seqs[17] ...
 *     resourcelist_close(&r);
 *
 * What each document has to be is checked on the way, and fails the test: it is
 * valid, within limits, of the one state that the first one told
 * linked, and has no resource twice.
 * Resources are those of source.h, with numbers below `max`.
 */
#ifndef TESTS_SUPPORT_RESOURCELIST_H
#define TESTS_SUPPORT_RESOURCELIST_H

#include <stddef.h>
#include <stdint.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/xpath.h"

struct resourcelist {
    struct http http;
    size_t root; /* size of the public URL */
    char capabilitylist[200];
    char url[300];     /* of what was read first */
    char archive[300]; /* its link `archives`; "": it has none */
    char at[40], epoch[24];
    uint64_t last;
    uint64_t generation; /* as the parts' links to their index tell; 0: none */
    struct xpath index;
    bool has_index;
    size_t n_parts; /* 1: it is a list itself */
    size_t n, max;
    uint64_t *seqs; /* td:seq by number; 0: it is not there */
};

/* The broker stays where it is (restarts are fine). */
void resourcelist_open(struct resourcelist *r, const struct broker *b,
                       const char *set, size_t max);
void resourcelist_close(struct resourcelist *r);

/* Reads the document that the Capability List names, or that of `url`; if it is
 * a list, that was all. */
void resourcelist_begin(struct resourcelist *r);
void resourcelist_begin_at(struct resourcelist *r, const char *url);

/* The parts that it names. */
void resourcelist_end(struct resourcelist *r);

/* GETs a document of that URL, which must be there; lent by r->http. */
struct slice resourcelist_get(struct resourcelist *r, const char *url);

/* The href of the Capability List's entry with that capability; "": it has
 * none. */
void resourcelist_offered(struct resourcelist *r, const char *capability,
                          char *to, size_t size);

#endif
