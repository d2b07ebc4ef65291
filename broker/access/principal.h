/*
 * principal.h - on whose behalf a request, a stream or a subscription acts: the
 * holder of a token, of a JSON Web Token, or everyone.
 *
 * Shared and counted. Only the end changes. Revoking a token ends its
 * principal, and everything that is under way for it within two seconds
 * (broker/base/authority.h); its streams and subscriptions end within a second.
 */
#pragma once

#include "broker/access/rights.h"
#include "broker/base/authority.h"

/* The longest name: that of a token, or of a JSON Web Token's subject. */
#define PRINCIPAL_NAME_MAX 200

/* The name of requests without a token, also of the token that gives them
 * rights. */
#define PRINCIPAL_EVERYONE "everyone"

/* The operator's name, on the control socket. */
#define PRINCIPAL_OPERATOR ":operator"

struct principal {
    struct authority authority; /* first: its last reference frees this */
    bool is_everyone; /* a request without a token: sees no private set */
    char name[PRINCIPAL_NAME_MAX + 1]; /* the owner of what it makes: limits,
                                          subscriptions, idempotency keys */
    struct rights rights;
    atomic_int_least64_t used_us; /* the last request; 0: none. Relaxed */
};

/* `name` is cut. The caller owns the first reference. */
struct principal *principal_new(struct slice name, const struct rights *rights,
                                int64_t ends_us);
struct principal *principal_ref(struct principal *p); /* returns `p` */
void principal_unref(struct principal *p);            /* NULL is allowed */

/* True if it may act no longer. Any thread. */
static inline bool
principal_is_over(const struct principal *p, int64_t now_us)
{
    return authority_is_over(&p->authority, now_us);
}

/* True if the name has a colon: that of no token, so the table of tokens does
 * not know its end. */
static inline bool
principal_is_outside(const char *name)
{
    return strchr(name, ':') != NULL;
}

/* Ends it at `at_us`, if that is earlier than its end. Any thread. */
void principal_end(struct principal *p, int64_t at_us);

/* True if a set is visible: a private one (`is_private`) needs a token with the
 * right to subscribe. */
bool principal_sees(const struct principal *p, struct slice set,
                    bool is_private);
