/*
 * seen.h - a request as a callback got it, and questions to it.
 *
 * Signatures are computed here anew, with OpenSSL's HMAC, and nothing of proto/
 * is asked, so that no fault of it hides on both sides.
 */
#ifndef TESTS_SUPPORT_SEEN_H
#define TESTS_SUPPORT_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"

enum seen_kind {
    SEEN_VERIFICATION, /* GET with hub.mode=subscribe or unsubscribe */
    SEEN_DENIAL,       /* GET with hub.mode=denied */
    SEEN_DELIVERY,     /* POST */
    SEEN_STRAY,        /* anything else, or to no callback of ours */
    SEEN_KINDS
};

#define SEEN_ID_MAX 63

/* All is lent by the callbacks that it came to, as long as they live. */
struct seen {
    enum seen_kind kind;
    unsigned order;      /* among all of its server, from 1 */
    unsigned connection; /* on which it came, from 1 */
    int64_t at_us;       /* when it was whole; steady clock */
    char *head;          /* as it came, terminated; NULL: not kept */
    char *method;
    char *target; /* byte for byte */
    char *added;  /* what a GET has behind the callback's own target and the
                     "?" or "&" after it; "" */
    char *body;   /* terminated; NULL: none, or not kept */
    size_t body_size;
    bool is_whole; /* all of its body was read */

    /* Of a delivery. "" and 0: it does not tell. */
    char id[SEEN_ID_MAX + 1]; /* Tidings-Delivery */
    char epoch[17];
    bool has_coverage;
    uint64_t after, last;
    uint64_t sum; /* FNV-1a of the body; where it has coverage, of what stands
                     before its entries */

    /* Changes later, under the server's lock: ask callback_accepted. */
    bool is_accepted; /* it got a 2xx */
    bool is_repeat;   /* as one of its id had before */
};

/* How many header lines of that name it has, whatever the case. */
size_t seen_count(const struct seen *s, const char *name);

/* The value of the first one, without blanks around it, cut to `size`. NULL:
 * there is none; else `to`. */
const char *seen_header(const struct seen *s, const char *name, char *to,
                        size_t size);

/* Fails the test if there is not exactly one line with that value. */
void seen_assert_header(const struct seen *s, const char *name,
                        const char *value);

/* The value of a parameter that the hub added, decoded, of which there must be
 * one; NULL: there is none. */
const char *seen_parameter(const struct seen *s, const char *name, char *to,
                           size_t size);

/* Fails the test if it is not there or has another value. */
void seen_assert_parameter(const struct seen *s, const char *name,
                           const char *value);

/* W-083: one Link line, with exactly one rel="self" and one rel="hub", of these
 * targets. Fails the test if not. */
void seen_assert_links(const struct seen *s, const char *self, const char *hub);

/* W-100: X-Hub-Signature is "method=" and the HMAC of the body; `secret` NULL:
 * there is none (W-102). Fails the test if not. */
void seen_assert_signature(const struct seen *s, const char *method,
                           const char *secret);

/* W-106: the three headers of Standard Webhooks 1.0 are there and right for a
 * secret of the form whsec_BASE64; its key is at most 64 bytes. */
void seen_assert_webhook(const struct seen *s, const char *secret);

/* The bodies are the same. */
void seen_assert_same_body(const struct seen *a, const struct seen *b);

#endif
