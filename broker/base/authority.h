/*
 * authority.h - how long whoever asked for something may act.
 *
 *     token, JSON Web Token --> struct principal (broker/access) has one
 *                                  ^ of
 *     session of the console ------+   ends with its principal, or before
 *
 * An act that takes time keeps a reference to the authority that it was asked
 * for by, and asks again at the moment of its effect: the commit, the token,
 * the setting, the next piece of an answer. Revoking a token ends its
 * authority, and so everything that is under way for it.
 *
 * Shared and counted. Only the end changes. Any thread.
 */
#pragma once

#include "base/relaxed.h"
#include "proto/problem.h"

/* The reason of STATUS_DENIED: one text, whether a token is missing, unknown or
 * over. */
#define AUTHORITY_MISSING \
    "this needs a token that is valid: Authorization: Bearer TOKEN"

struct authority {
    atomic_uint refs;
    atomic_int_least64_t ends_us; /* wall clock; INT64_MAX: never. Relaxed: a
                                     late look is repeated */
    struct authority *of; /* ends with that one, too: a reference; or NULL */
};

/* The first reference is the caller's. `of`: NULL: none. As the first member of
 * a struct it begins likewise, and its last reference frees the struct. */
struct authority *authority_new(struct authority *of, int64_t ends_us);
struct authority *authority_ref(struct authority *a); /* NULL is allowed */
void authority_unref(struct authority *a);            /* likewise */

/* True if it has ended. NULL: never. */
static inline bool
authority_is_over(const struct authority *a, int64_t now_us)
{
    for (; a; a = a->of)
        if (load_relaxed(&a->ends_us) <= now_us)
            return true;
    return false;
}

/* Ends it at `at_us`, if that is earlier than its end. */
void authority_end(struct authority *a, int64_t at_us);

/* Asks at the effect of an act. STATUS_DENIED: it has ended; the log and a
 * metric say so. */
MUST_CHECK enum status authority_check(const struct authority *a,
                                       int64_t now_us, struct problem *why);
