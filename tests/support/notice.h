/*
 * notice.h - a message as somebody got it, in JSON or XML: what it covers and
 * what is in it.
 *
 * Read with libxml2 and yajl as they are, so that no fault of proto/ hides on
 * both sides.
 */
#ifndef TESTS_SUPPORT_NOTICE_H
#define TESTS_SUPPORT_NOTICE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"

/* "sha-256:", 64 hexadecimal digits, terminator. */
#define NOTICE_DIGEST_SIZE 73

enum notice_form { NOTICE_JSON, NOTICE_XML };

struct notice_entry {
    uint64_t seq;
    char *loc;
    char *change;
    char *datetime;
};

/* "" stands for what is not there. */
struct notice {
    char set[65]; /* in JSON only */
    char epoch[33];
    char from[33];
    char until[33];
    char digest[NOTICE_DIGEST_SIZE];
    char now[33];
    char heartbeat[17];
    char *next; /* change memory only; NULL: none */
    uint64_t after;
    uint64_t last;
    size_t n;
    struct notice_entry *entries;
};

/* Fails the test if `text` is no message. */
void notice_read(struct notice *n, enum notice_form form, struct slice text);
void notice_free(struct notice *n);

/* Fails the test unless the message holds together by itself: an entry for
 * every seq that it covers, in order, with times after `from` and not after
 * `until` that grow; the clock and the interval in
 * heartbeats only. */
void notice_check(const struct notice *n);

/* The same of a message with a filter: some of the entries that it covers, none
 * perhaps. */
void notice_check_filtered(const struct notice *n);

/* Fails the test unless `next` begins where `n` ends: after, from. */
void notice_check_chain(const struct notice *n, const struct notice *next);

/* What the digest of a log is before its first entry, and after one more entry,
 * whose fragment is given: d(0) is the SHA-256 of the epoch, d(n) that of
 * d(n-1) and the fragment. */
void notice_digest_start(char digest[NOTICE_DIGEST_SIZE], const char *epoch);
void notice_digest_add(char digest[NOTICE_DIGEST_SIZE], struct slice fragment);

#endif
