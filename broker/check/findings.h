/*
 * findings.h - what a check has found: one line each, with what, where, what it
 * means, and what to do.
 *
 *     tidings-data/sets/news/changes/000000000003.xml.gz: it is missing; its
 *     entries cannot be read; restore the file from a backup
 *
 * A kind gives the last two. Beside a running broker one look may meet a file
 * that is being written or deleted: a finding counts if a second look finds the
 * same (findings_confirm).
 */
#ifndef BROKER_CHECK_FINDINGS_H
#define BROKER_CHECK_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum finding_kind {
    FINDING_NEWER,    /* a database of a newer program */
    FINDING_OLDER,    /* a database that a start must bring up to date */
    FINDING_UNREAD,   /* something that could not be looked at */
    FINDING_DATABASE, /* damaged pages, missing tables */
    FINDING_LOG,      /* rows of tidings.db that contradict each other */
    FINDING_ENTRY,    /* entries in tidings.db */
    FINDING_LIST,     /* the file of a closed list */
    FINDING_MARKS,    /* the places at which a reader enters it */
    FINDING_KEYS,     /* idempotency keys */
    FINDING_BUILD,    /* files of a Resource List or dump */
    FINDING_STATE,    /* resources.db */
    FINDING_CONTENT,  /* files of bytes */
    FINDING_INDEX,    /* content.db */
    FINDING_HUB,      /* subscriptions, requests, relays */
    FINDING_AHEAD,    /* a position behind the end of its log */
    FINDING_BEHIND,   /* a position before its beginning */
    FINDING_STALE,    /* a row of a topic or set that is gone */
    FINDING_BRIDGE,   /* mqtt.db */
    FINDING_TOKEN,    /* tokens.db */
    FINDING_ORPHAN,   /* a file of no row */
    FINDING_LEFT,     /* a file whose writing was cut off */
    FINDING_RESTORE,  /* a restore that has not ended */
    FINDING_MODE,     /* permissions */
    FINDING_OWNER,
    FINDING_KINDS
};

/* Lines, in the order in which they were found. All zero: none. */
struct findings {
    char **lines;
    size_t n, capacity;
    bool is_short; /* there was no memory for all */
};

void findings_add(struct findings *findings, enum finding_kind kind,
                  const char *dir, const char *path, const char *what);

/* Removes the lines that `second` does not have. */
void findings_confirm(struct findings *findings, const struct findings *second);

void findings_print(const struct findings *findings, FILE *to);
void findings_clear(struct findings *findings);

#endif
