#include "broker/access/identity_provider.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include <openssl/crypto.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/list.h"
#include "base/map.h"
#include "broker/access/jwk_fetch.h"
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

struct provider_settings {
    struct jwk_set *keys; /* NULL: of `url` */
    char *url;            /* NULL: of a file */
    char *issuer, *audience;
    struct provider_sign_in sign_in;
};

struct identity_provider {
    const char *public_url;
    char *url; /* of the thread that made it; NULL: a file, or none */

    /* NULL before the first URL. A release publishes the fetch to the threads
     * that find tokens. */
    _Atomic(struct jwk_fetch *) fetch;

    /* What a token has to be: read until the verified token is entered. A
     * change waits for no reader that comes after it. */
    pthread_rwlock_t lock;
    struct jwk_set *keys; /* NULL: unknown */
    char *issuer, *audience;
    struct provider_sign_in sign_in; /* its client is "": none */

    pthread_mutex_t mutex; /* within `lock`; guards the next two */
    struct map tokens;     /* by hash */
    struct list used;      /* the same, the latest first */
};

/* Settings */

static bool
is_url(const char *keys)
{
    return strstr(keys, "://") != NULL;
}

/* Scheme, host and port of a URL that jwk_fetch_check_url has accepted. */
static struct slice
origin_of(const char *url)
{
    const char *host = strstr(url, "://") + strlen("://");

    return (struct slice){url, (size_t)(host - url) + strcspn(host, "/?#")};
}

/* The browser asks the issuer by its URL, which the policy of the console
 * names. */
static enum status
check_client(const struct provider_options *options, struct problem *why)
{
    struct slice origin;

    if (jwk_fetch_check_url(options->issuer, why))
        return problem_prefix(why, STATUS_INVALID,
                              "--jwt-client needs the URL of an OpenID "
                              "provider as --jwt-issuer: ");
    origin = origin_of(options->issuer);
    for (size_t i = 0; i < origin.size; i++)
        if (strchr(";,'", origin.data[i]))
            return problem(why, STATUS_INVALID,
                           "--jwt-issuer: with --jwt-client its host has none "
                           "of ; , and '");
    return STATUS_OK;
}

enum status
provider_options_check(const struct provider_options *options,
                       struct problem *why)
{
    const char *missing = !*options->keys       ? "keys"
                          : !*options->issuer   ? "issuer"
                          : !*options->audience ? "audience"
                                                : NULL;

    if (!*options->keys && !*options->issuer && !*options->audience &&
        !*options->client)
        return STATUS_OK;
    if (missing)
        return problem(why, STATUS_INVALID,
                       "--jwt-%s is missing: a token is accepted when a key of "
                       "--jwt-keys has signed it, --jwt-issuer has issued it, "
                       "and it is for --jwt-audience",
                       missing);
    if (is_url(options->keys) && jwk_fetch_check_url(options->keys, why))
        return problem_prefix(why, STATUS_INVALID, "--jwt-keys: ");
    return *options->client ? check_client(options, why) : STATUS_OK;
}

/* A file that is too large is read so far that jwk_set_read refuses it. */
static enum status
read_keys(struct jwk_set **keys, const char *path, struct problem *why)
{
    enum status rc = STATUS_OK;
    struct stat info = {.st_mode = 0};
    struct buf text = {.max = JWK_SET_BYTES_MAX + 1};
    char *room = buf_room(&text, JWK_SET_BYTES_MAX + 1);
    ssize_t size = 0;

    if (!room)
        rc = problem_memory(why);
    else
        size = file_read(AT_FDCWD, path, room, JWK_SET_BYTES_MAX + 1);
    if (size < 0)
        rc = problem_errno(why, "cannot read the JWK set", path);
    else
        text.size = (size_t)size;
    (void)!stat(path, &info);
    if (!rc) {
        rc = jwk_set_read(keys, buf_slice(&text), false, why);
        if (rc)
            problem_prefix(why, rc, "%s: ", path);
        else if (jwk_set_has_secret(*keys) &&
                 (info.st_mode & (S_IRWXG | S_IRWXO)))
            diag(DIAG_WARNING, "access",
                 "the JWK set %s has a secret and is open to others (mode "
                 "%03o)",
                 path, (unsigned)info.st_mode & 0777);
    }
    if (text.data)
        OPENSSL_cleanse(text.data, text.capacity); /* secrets of HS256 */
    buf_fini(&text);
    return rc;
}

enum status
provider_settings_read(struct provider_settings **settings,
                       const struct provider_options *options,
                       struct problem *why)
{
    struct provider_settings *s;
    enum status rc = STATUS_OK;

    *settings = NULL;
    if (!*options->keys)
        return STATUS_OK;
    s = memory_new(1, sizeof(*s));
    s->issuer = slice_dup(slice_of(options->issuer));
    s->audience = slice_dup(slice_of(options->audience));
    if (*options->client) {
        snprintf(s->sign_in.issuer, PROVIDER_TEXT_SIZE, "%s", options->issuer);
        snprintf(s->sign_in.origin, PROVIDER_TEXT_SIZE, "%.*s",
                 SLICE_ARG(origin_of(options->issuer)));
        snprintf(s->sign_in.client, PROVIDER_TEXT_SIZE, "%s", options->client);
        snprintf(s->sign_in.scope, PROVIDER_TEXT_SIZE, "%s", options->scope);
    }
    if (is_url(options->keys))
        s->url = slice_dup(slice_of(options->keys));
    else
        rc = read_keys(&s->keys, options->keys, why);
    if (rc)
        provider_settings_free(s);
    else
        *settings = s;
    return rc;
}

void
provider_settings_free(struct provider_settings *settings)
{
    if (!settings)
        return;
    jwk_set_unref(settings->keys);
    free(settings->url);
    free(settings->issuer);
    free(settings->audience);
    free(settings);
}

/* The provider */

struct identity_provider *
identity_provider_new(const char *public_url)
{
    struct identity_provider *p = memory_new(1, sizeof(*p));
    pthread_rwlockattr_t writers_first;

    p->public_url = public_url;
    p->issuer = slice_dup(SLICE(""));
    p->audience = slice_dup(SLICE(""));
    list_init(&p->used);
    pthread_rwlockattr_init(&writers_first);
    pthread_rwlockattr_setkind_np(&writers_first,
                                  PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&p->lock, &writers_first);
    pthread_rwlockattr_destroy(&writers_first);
    pthread_mutex_init(&p->mutex, NULL);
    return p;
}

static void
forget(struct identity_provider *p, struct verified *token)
{
    map_remove(&p->tokens, &token->node);
    list_remove(&token->used);
    principal_unref(token->principal);
    free(token);
}

void
identity_provider_free(struct identity_provider *p)
{
    struct verified *token;

    if (!p)
        return;
    jwk_fetch_close(load_relaxed(&p->fetch));
    list_until_empty (token, &p->used, used)
        forget(p, token);
    map_fini(&p->tokens);
    pthread_rwlock_destroy(&p->lock);
    pthread_mutex_destroy(&p->mutex);
    jwk_set_unref(p->keys);
    free(p->url);
    free(p->issuer);
    free(p->audience);
    free(p);
}

/* Changes */

/* Ends the principals of tokens without a key; all of them: `is_other`. `lock`
 * is held for writing. */
static void
end_tokens(struct identity_provider *p, bool is_other)
{
    struct verified *token;

    pthread_mutex_lock(&p->mutex);
    list_walk (token, &p->used, used) {
        if (!is_other && p->keys && jwk_set_has(p->keys, &token->key))
            continue;
        principal_end(token->principal, clock_now_us());
        forget(p, token);
    }
    pthread_mutex_unlock(&p->mutex);
}

void
identity_provider_expect(struct identity_provider *p, const char *issuer,
                         const char *audience)
{
    pthread_rwlock_wrlock(&p->lock);
    if (strcmp(issuer, p->issuer) != 0 || strcmp(audience, p->audience) != 0) {
        free(p->issuer);
        free(p->audience);
        p->issuer = slice_dup(slice_of(issuer));
        p->audience = slice_dup(slice_of(audience));
        end_tokens(p, true);
    }
    pthread_rwlock_unlock(&p->lock);
}

void
identity_provider_set_keys(struct jwk_set *keys, void *provider)
{
    struct identity_provider *p = provider;

    pthread_rwlock_wrlock(&p->lock);
    jwk_set_unref(p->keys);
    p->keys = keys;
    end_tokens(p, false);
    pthread_rwlock_unlock(&p->lock);
}

/* Tokens */

static uint64_t
node_hash(struct identity_provider *p, const struct digest *hash)
{
    return map_hash(&p->tokens,
                    (struct slice){(const char *)hash->bytes, DIGEST_SIZE});
}

/* Returns the principal of a token that a thread has entered before. Else
 * enters `jwt`; NULL: returns NULL. */
static struct principal *
look_up(struct identity_provider *p, const struct digest *hash,
        const struct jwt *jwt, int64_t now_us)
{
    struct principal *found = NULL;
    struct verified *token = NULL, *one;

    pthread_mutex_lock(&p->mutex);
    map_each_same (one, &p->tokens, node_hash(p, hash), node) {
        if (digest_is_equal(&one->hash, hash))
            token = one;
    }
    if (token && principal_is_over(token->principal, now_us)) {
        forget(p, token);
    } else if (token) {
        list_remove(&token->used);
        list_prepend(&p->used, &token->used);
        found = principal_ref(token->principal);
    }
    if (!found && jwt) {
        token = memory_new(1, sizeof(*token));
        /* Forgets the token that was not used for longest. Those in use, at
         * most as many as there are connections and subscriptions, move to the
         * front. */
        for (int i = 0; i < PASSED_OVER_MAX && p->tokens.n >= JWT_VERIFIED_MAX;
             i++) {
            struct verified *last =
                list_entry(p->used.prev, struct verified, used);

            /* Only this lock gives out references, so a count of one stays. */
            if (atomic_load_explicit(&last->principal->authority.refs,
                                     memory_order_acquire) == 1) {
                forget(p, last);
            } else {
                list_remove(&last->used);
                list_prepend(&p->used, &last->used);
            }
        }
        token->hash = *hash;
        token->key = jwt->key;
        token->principal =
            principal_new(slice_of(jwt->name), &jwt->rights, jwt->ends_us);
        map_add(&p->tokens, &token->node, node_hash(p, hash));
        list_prepend(&p->used, &token->used);
        found = principal_ref(token->principal);
    }
    pthread_mutex_unlock(&p->mutex);
    return found;
}

struct principal *
identity_provider_verify(struct identity_provider *p, struct slice text,
                         int64_t now_us, bool *is_key_unknown)
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
    principal = look_up(p, &hash, NULL, now_us);
    if (principal)
        return principal;
    pthread_rwlock_rdlock(&p->lock);
    terms = (struct jwt_terms){p->keys, p->issuer, p->audience, p->public_url};
    if (!*p->issuer)
        rc = STATUS_REFUSED;
    else if (p->keys)
        rc = jwt_verify(&jwt, text, &terms, now_us, &why);
    else
        rc = problem(&why, STATUS_NOT_FOUND,
                     "the keys of its issuer are not known yet");
    if (rc && *p->issuer)
        DIAG(DIAG_DEBUG, "access", "a JSON Web Token is refused",
             diag_text("error", why.text));
    if (!rc) /* or another thread has entered it */
        principal = look_up(p, &hash, &jwt, now_us);
    pthread_rwlock_unlock(&p->lock);
    *is_key_unknown = rc == STATUS_NOT_FOUND;
    return principal;
}

/* The settings in use */

static struct jwk_fetch *
fetch_of(struct identity_provider *p)
{
    return atomic_load_explicit(&p->fetch, memory_order_acquire);
}

void
identity_provider_use(struct identity_provider *p,
                      struct provider_settings *settings)
{
    bool is_same_url =
        settings && settings->url && p->url && !strcmp(settings->url, p->url);
    struct jwk_fetch *fetch = fetch_of(p);
    struct problem why = {""};

    if (settings && settings->url && !fetch &&
        jwk_fetch_open(&fetch, identity_provider_set_keys, p, &why)) {
        DIAG_REPORT(DIAG_ERROR, "access",
                    "the settings of the identity provider cannot be used",
                    diag_text("error", why.text));
        provider_settings_free(settings);
        return;
    }
    atomic_store_explicit(&p->fetch, fetch, memory_order_release);
    pthread_rwlock_wrlock(&p->lock);
    p->sign_in =
        settings ? settings->sign_in : (struct provider_sign_in){.client = ""};
    pthread_rwlock_unlock(&p->lock);
    identity_provider_expect(p, settings ? settings->issuer : "",
                             settings ? settings->audience : "");
    if (!is_same_url) {
        /* An earlier URL hands no keys over before the new ones are in place,
         * nor after. */
        if (fetch)
            jwk_fetch_from(fetch, "");
        identity_provider_set_keys(
            settings ? jwk_set_ref(settings->keys) : NULL, p);
        free(p->url);
        p->url = NULL;
        if (settings && settings->url) {
            p->url = settings->url;
            settings->url = NULL;
            jwk_fetch_from(fetch, p->url);
        }
    }
    if (settings && settings->keys)
        DIAG_REPORT(DIAG_INFO, "access",
                    "the keys of the identity provider are read",
                    diag_text("issuer", settings->issuer),
                    diag_number("keys", jwk_set_size(settings->keys)));
    provider_settings_free(settings);
}

bool
identity_provider_sign_in(struct identity_provider *p,
                          struct provider_sign_in *sign_in)
{
    pthread_rwlock_rdlock(&p->lock);
    *sign_in = p->sign_in;
    pthread_rwlock_unlock(&p->lock);
    return sign_in->client[0] != '\0';
}

void
identity_provider_await(struct identity_provider *p)
{
    if (fetch_of(p))
        jwk_fetch_await(fetch_of(p));
}

struct principal *
identity_provider_find(struct identity_provider *p, struct slice text,
                       int64_t now_us)
{
    bool is_key_unknown = false;
    struct principal *found =
        identity_provider_verify(p, text, now_us, &is_key_unknown);

    if (is_key_unknown && fetch_of(p))
        jwk_fetch_ask(fetch_of(p));
    return found;
}
