#include "broker/access/jwt_verifier.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "broker/access/jwt.h"
#include "broker/base/diag.h"
#include "proto/memory.h"

/* How many tokens in use are passed over in the search for one to forget. */
#define PASSED_OVER_MAX 16

/* A token that is good. Under the lock. */
struct verified {
    struct map_node node;
    struct list used; /* in jwt_verifier.used */
    struct digest hash, key;
    struct principal *principal;
};

struct jwt_verifier {
    const char *public_url;
    pthread_mutex_t mutex;

    /* Under the mutex. */
    struct jwk_set *keys; /* NULL: unknown */
    char *issuer, *audience;
    uint64_t n_changes; /* of these three */
    struct map tokens;  /* by hash */
    struct list used;   /* the same, the latest first */
};

struct jwt_verifier *
jwt_verifier_new(const char *public_url)
{
    struct jwt_verifier *v = memory_new(1, sizeof(*v));

    v->public_url = public_url;
    v->issuer = slice_dup(SLICE(""));
    v->audience = slice_dup(SLICE(""));
    list_init(&v->used);
    pthread_mutex_init(&v->mutex, NULL);
    return v;
}

static void
forget(struct jwt_verifier *v, struct verified *token)
{
    map_remove(&v->tokens, &token->node);
    list_remove(&token->used);
    principal_unref(token->principal);
    free(token);
}

void
jwt_verifier_free(struct jwt_verifier *v)
{
    struct verified *token;

    if (!v)
        return;
    list_until_empty (token, &v->used, used)
        forget(v, token);
    map_fini(&v->tokens);
    pthread_mutex_destroy(&v->mutex);
    jwk_set_unref(v->keys);
    free(v->issuer);
    free(v->audience);
    free(v);
}

/* Changes */

/* Ends the principals of tokens without a key; all of them: `is_other`. Under
 * the lock. */
static void
end_tokens(struct jwt_verifier *v, bool is_other)
{
    int64_t now_us = clock_now_us();
    struct list *after;
    struct verified *token;

    v->n_changes++;
    list_each (token, after, &v->used, used) {
        if (!is_other && v->keys && jwk_set_has(v->keys, &token->key))
            continue;
        principal_end(token->principal, now_us);
        forget(v, token);
    }
}

void
jwt_verifier_expect(struct jwt_verifier *v, const char *issuer,
                    const char *audience)
{
    pthread_mutex_lock(&v->mutex);
    if (strcmp(issuer, v->issuer) != 0 || strcmp(audience, v->audience) != 0) {
        free(v->issuer);
        free(v->audience);
        v->issuer = slice_dup(slice_of(issuer));
        v->audience = slice_dup(slice_of(audience));
        end_tokens(v, true);
    }
    pthread_mutex_unlock(&v->mutex);
}

void
jwt_verifier_set_keys(struct jwt_verifier *v, struct jwk_set *keys)
{
    struct jwk_set *old;

    pthread_mutex_lock(&v->mutex);
    old = v->keys;
    v->keys = keys;
    end_tokens(v, false);
    pthread_mutex_unlock(&v->mutex);
    jwk_set_unref(old);
}

/* Tokens */

static uint64_t
node_hash(struct jwt_verifier *v, const struct digest *hash)
{
    return map_hash(&v->tokens,
                    (struct slice){(const char *)hash->bytes, DIGEST_SIZE});
}

/* Returns a reference. Under the lock. */
static struct principal *
find_verified(struct jwt_verifier *v, const struct digest *hash, int64_t now_us)
{
    struct verified *token;

    map_each_same (token, &v->tokens, node_hash(v, hash), node) {
        if (!digest_is_equal(&token->hash, hash))
            continue;
        if (principal_is_over(token->principal, now_us)) {
            forget(v, token);
            return NULL;
        }
        list_remove(&token->used);
        list_prepend(&v->used, &token->used);
        return principal_ref(token->principal);
    }
    return NULL;
}

/* Only this lock gives out references, so a count of one stays one. */
static bool
is_idle(const struct verified *token)
{
    return atomic_load_explicit(&token->principal->authority.refs,
                                memory_order_acquire) == 1;
}

/* Forgets the token that was not used for longest. Those in use, at most as
 * many as there are connections and subscriptions, move to the front. Under the
 * lock. */
static void
make_room(struct jwt_verifier *v)
{
    for (int i = 0; i < PASSED_OVER_MAX && v->tokens.n >= JWT_VERIFIED_MAX;
         i++) {
        struct verified *token =
            list_entry(v->used.prev, struct verified, used);

        if (is_idle(token)) {
            forget(v, token);
        } else {
            list_remove(&token->used);
            list_prepend(&v->used, &token->used);
        }
    }
}

/* Under the lock. */
static struct principal *
remember(struct jwt_verifier *v, const struct digest *hash,
         const struct jwt *jwt)
{
    struct verified *token = memory_new(1, sizeof(*token));

    make_room(v);
    token->hash = *hash;
    token->key = jwt->key;
    token->principal =
        principal_new(slice_of(jwt->name), &jwt->rights, jwt->ends_us);
    map_add(&v->tokens, &token->node, node_hash(v, hash));
    list_prepend(&v->used, &token->used);
    return principal_ref(token->principal);
}

/* What the tokens of a moment have to be: a copy. */
struct expected {
    struct jwk_set *keys;
    char *issuer, *audience;
    uint64_t n_changes;
};

/* Under the lock. */
static struct expected
copy_expected(struct jwt_verifier *v)
{
    return (struct expected){jwk_set_ref(v->keys),
                             slice_dup(slice_of(v->issuer)),
                             slice_dup(slice_of(v->audience)), v->n_changes};
}

static void
free_expected(struct expected *expected)
{
    jwk_set_unref(expected->keys);
    free(expected->issuer);
    free(expected->audience);
}

static enum status
verify(struct jwt *jwt, struct slice text, const struct jwt_verifier *v,
       const struct expected *expected, int64_t now_us)
{
    struct jwt_terms terms = {expected->keys, expected->issuer,
                              expected->audience, v->public_url};
    struct problem why = {""};
    enum status rc;

    if (!*expected->issuer)
        return STATUS_REFUSED;
    rc = expected->keys ? jwt_verify(jwt, text, &terms, now_us, &why)
                        : problem(&why, STATUS_NOT_FOUND,
                                  "the keys of its issuer are not known yet");
    if (rc)
        DIAG(DIAG_DEBUG, "access", "a JSON Web Token is refused",
             diag_text("error", why.text));
    return rc;
}

struct principal *
jwt_verifier_find(struct jwt_verifier *v, struct slice text, int64_t now_us,
                  bool *is_key_unknown)
{
    struct principal *principal = NULL;
    struct expected expected;
    struct digest hash;
    enum status rc = STATUS_OK;
    struct jwt jwt;

    *is_key_unknown = false;
    if (text.size > JWT_BYTES_MAX)
        return NULL;
    digest_sha256(&hash, text);
    pthread_mutex_lock(&v->mutex);
    principal = find_verified(v, &hash, now_us);
    while (!principal) {
        expected = copy_expected(v);
        pthread_mutex_unlock(&v->mutex);
        rc = verify(&jwt, text, v, &expected, now_us);
        free_expected(&expected);
        pthread_mutex_lock(&v->mutex);
        if (rc)
            break;
        principal = find_verified(v, &hash, now_us); /* by another thread */
        if (!principal && v->n_changes == expected.n_changes)
            principal = remember(v, &hash, &jwt);
        if (v->n_changes == expected.n_changes)
            break;
    }
    pthread_mutex_unlock(&v->mutex);
    *is_key_unknown = rc == STATUS_NOT_FOUND;
    return principal;
}
