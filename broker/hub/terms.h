/*
 * terms.h - what a subscriber and the hub have agreed on. A request carries its
 * terms until it is verified; the subscription has them afterwards.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_TERMS_H
#define BROKER_HUB_TERMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <openssl/crypto.h>

#include "proto/websub.h"

/* A verified renewal replaces all of these (W-036, W-037). */
struct terms {
    int64_t lease_us; /* granted; from the verification request on */
    char secret[WEBSUB_SECRET_MAX + 1]; /* wiped when freed */
    size_t secret_size;                 /* 0: none */
    char *filter;                       /* filter_text, terminated; NULL: all */
    int64_t interval_us;                /* the least time between two
                                           deliveries */
    bool is_simple;                     /* */
    bool is_local; /* a client of this machine asked, and the callback's host is
                      a loopback address or "localhost" (hub_also) */
};

/* Frees what the terms hold, wipes the secret, and leaves them all zero. */
static inline void
terms_fini(struct terms *terms)
{
    free(terms->filter);
    OPENSSL_cleanse(terms->secret, sizeof(terms->secret));
    *terms = (struct terms){0};
}

/* Moves `from` to `to`, and leaves `from` all zero. */
static inline void
terms_move(struct terms *to, struct terms *from)
{
    terms_fini(to);
    *to = *from;
    from->filter = NULL;
    terms_fini(from);
}

#endif
