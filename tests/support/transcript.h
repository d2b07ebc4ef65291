/*
 * transcript.h - the entries of a set as messages told them, each kept once,
 * however many subscribers got them and however they were cut into messages.
 *
 * The first message that has an entry adds its bytes; all others are compared
 * with these, which costs no more than reading them. So thousands of
 * subscribers can be held to every byte.
 *
 * Not of threads: whoever owns it locks. Nothing here ends a test.
 */
#ifndef TESTS_SUPPORT_TRANSCRIPT_H
#define TESTS_SUPPORT_TRANSCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"

struct transcript {
    bool has_begun;
    uint64_t after;  /* the first entry is the one after this */
    uint64_t last;   /* the last entry known */
    char epoch[17];  /* that all of them tell */
    struct buf text; /* "<url>...</url>\n" of each */
    size_t *ends;    /* where entry after + 1 + i ends in the text */
    size_t capacity;
};

/* What the beginning of a message tells. */
struct transcript_head {
    char epoch[17];
    uint64_t after, last;
    struct slice entries; /* its bytes between head and end of the document */
};

void transcript_init(struct transcript *l);
void transcript_fini(struct transcript *l);

/* Reads epoch and coverage of an XML message. false: it tells none. */
bool transcript_read(struct transcript_head *head, struct slice message);

/* Compares, and adds what is new. false: it is not what was told before, or not
 * the entries that it says it covers; `why` says what is wrong. */
bool transcript_add(struct transcript *l, const struct transcript_head *head,
                    struct problem *why);

#endif
