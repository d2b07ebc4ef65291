#include "broker/access/jwt_verifier.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "broker/access/jwt.h"
#include "broker/base/diag.h"

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

    /* What a token has to be: read until the verified token is entered. A
     * change waits for no reader that comes after it. */
    pthread_rwlock_t lock;
    struct jwk_set *keys; /* NULL: unknown */
    char *issuer, *audience;

    pthread_mutex_t mutex; /* within `lock`; guards the next two */
    struct map tokens;     /* by hash */
    struct list used;      /* the same, the latest first */
};

struct jwt_verifier *
jwt_verifier_new(const char *public_url)
{
    struct jwt_verifier *v = memory_new(1, sizeof(*v));
    pthread_rwlockattr_t writers_first;

    v->public_url = public_url;
    v->issuer = slice_dup(SLICE(""));
    v->audience = slice_dup(SLICE(""));
    list_init(&v->used);
    pthread_rwlockattr_init(&writers_first);
    pthread_rwlockattr_setkind_np(&writers_first,
                                  PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&v->lock, &writers_first);
    pthread_rwlockattr_destroy(&writers_first);
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
    pthread_rwlock_destroy(&v->lock);
    pthread_mutex_destroy(&v->mutex);
    jwk_set_unref(v->keys);
    free(v->issuer);
    free(v->audience);
    free(v);
}

/* Changes */

/* Ends the principals of tokens without a key; all of them: `is_other`. `lock`
 * is held for writing. */
static void
end_tokens(struct jwt_verifier *v, bool is_other)
{
    int64_t now_us = clock_now_us();
    struct list *after;
    struct verified *token;

    pthread_mutex_lock(&v->mutex);
    list_each (token, after, &v->used, used) {
        if (!is_other && v->keys && jwk_set_has(v->keys, &token->key))
            continue;
        principal_end(token->principal, now_us);
        forget(v, token);
    }
    pthread_mutex_unlock(&v->mutex);
}

void
jwt_verifier_expect(struct jwt_verifier *v, const char *issuer,
                    const char *audience)
{
    pthread_rwlock_wrlock(&v->lock);
    if (strcmp(issuer, v->issuer) != 0 || strcmp(audience, v->audience) != 0) {
        free(v->issuer);
        free(v->audience);
        v->issuer = slice_dup(slice_of(issuer));
        v->audience = slice_dup(slice_of(audience));
        end_tokens(v, true);
    }
    pthread_rwlock_unlock(&v->lock);
}

void
jwt_verifier_set_keys(struct jwt_verifier *v, struct jwk_set *keys)
{
    pthread_rwlock_wrlock(&v->lock);
    jwk_set_unref(v->keys);
    v->keys = keys;
    end_tokens(v, false);
    pthread_rwlock_unlock(&v->lock);
}

/* Tokens */

static uint64_t
node_hash(struct jwt_verifier *v, const struct digest *hash)
{
    return map_hash(&v->tokens,
                    (struct slice){(const char *)hash->bytes, DIGEST_SIZE});
}

/* Returns the principal of a token that a thread has entered before. Else
 * enters `jwt`; NULL: returns NULL. */
static struct principal *
look_up(struct jwt_verifier *v, const struct digest *hash,
        const struct jwt *jwt, int64_t now_us)
{
    struct principal *found = NULL;
    struct verified *token = NULL, *one;

    pthread_mutex_lock(&v->mutex);
    map_each_same (one, &v->tokens, node_hash(v, hash), node) {
        if (digest_is_equal(&one->hash, hash))
            token = one;
    }
    if (token && principal_is_over(token->principal, now_us)) {
        forget(v, token);
    } else if (token) {
        list_remove(&token->used);
        list_prepend(&v->used, &token->used);
        found = principal_ref(token->principal);
    }
    if (!found && jwt) {
        token = memory_new(1, sizeof(*token));
        /* Forgets the token that was not used for longest. Those in use, at
         * most as many as there are connections and subscriptions, move to the
         * front. */
        for (int i = 0; i < PASSED_OVER_MAX && v->tokens.n >= JWT_VERIFIED_MAX;
             i++) {
            struct verified *last =
                list_entry(v->used.prev, struct verified, used);

            /* Only this lock gives out references, so a count of one stays. */
            if (atomic_load_explicit(&last->principal->authority.refs,
                                     memory_order_acquire) == 1) {
                forget(v, last);
            } else {
                list_remove(&last->used);
                list_prepend(&v->used, &last->used);
            }
        }
        token->hash = *hash;
        token->key = jwt->key;
        token->principal =
            principal_new(slice_of(jwt->name), &jwt->rights, jwt->ends_us);
        map_add(&v->tokens, &token->node, node_hash(v, hash));
        list_prepend(&v->used, &token->used);
        found = principal_ref(token->principal);
    }
    pthread_mutex_unlock(&v->mutex);
    return found;
}

struct principal *
jwt_verifier_find(struct jwt_verifier *v, struct slice text, int64_t now_us,
                  bool *is_key_unknown)
{
    struct problem why = {""};
    struct principal *principal;
    struct jwt_terms terms;
    struct digest hash;
    enum status rc;
    struct jwt jwt;

    *is_key_unknown = false;
    if (text.size > JWT_BYTES_MAX)
        return NULL;
    digest_sha256(&hash, text);
    principal = look_up(v, &hash, NULL, now_us);
    if (principal)
        return principal;
    pthread_rwlock_rdlock(&v->lock);
    terms = (struct jwt_terms){v->keys, v->issuer, v->audience, v->public_url};
    if (!*v->issuer)
        rc = STATUS_REFUSED;
    else if (v->keys)
        rc = jwt_verify(&jwt, text, &terms, now_us, &why);
    else
        rc = problem(&why, STATUS_NOT_FOUND,
                     "the keys of its issuer are not known yet");
    if (rc && *v->issuer)
        DIAG(DIAG_DEBUG, "access", "a JSON Web Token is refused",
             diag_text("error", why.text));
    if (!rc) /* or another thread has entered it */
        principal = look_up(v, &hash, &jwt, now_us);
    pthread_rwlock_unlock(&v->lock);
    *is_key_unknown = rc == STATUS_NOT_FOUND;
    return principal;
}
