#include "broker/access/identity_provider.h"

#include <sys/stat.h>

#include <openssl/crypto.h>

#include "broker/access/jwk_fetch.h"
#include "broker/access/jwk_set.h"
#include "broker/access/jwt_verifier.h"
#include "broker/base/diag.h"

struct provider_settings {
    struct jwk_set *keys; /* NULL: of `url` */
    char *url;            /* NULL: of a file */
    char *issuer, *audience;
};

struct identity_provider {
    struct jwt_verifier *verifier;
    char *url; /* of the thread that made it; NULL: a file, or none */

    /* NULL before the first URL. A release publishes the fetch to the threads
     * that find tokens. */
    _Atomic(struct jwk_fetch *) fetch;
};

/* Settings */

static bool
is_url(const char *keys)
{
    return strstr(keys, "://") != NULL;
}

enum status
provider_options_check(const struct provider_options *options,
                       struct problem *why)
{
    const char *missing = !*options->keys       ? "keys"
                          : !*options->issuer   ? "issuer"
                          : !*options->audience ? "audience"
                                                : NULL;

    if (!*options->keys && !*options->issuer && !*options->audience)
        return STATUS_OK;
    if (missing)
        return problem(why, STATUS_INVALID,
                       "--jwt-%s is missing: a token is accepted when a key of "
                       "--jwt-keys has signed it, --jwt-issuer has issued it, "
                       "and it is for --jwt-audience",
                       missing);
    if (is_url(options->keys) && jwk_fetch_check_url(options->keys, why))
        return problem_prefix(why, STATUS_INVALID, "--jwt-keys: ");
    return STATUS_OK;
}

/* A file that is too large is read so far that jwk_set_read refuses it. */
static enum status
read_keys(struct jwk_set **keys, const char *path, struct problem *why)
{
    FILE *file = fopen(path, "re");
    enum status rc = STATUS_OK;
    struct stat info;
    struct buf text;
    mode_t mode;
    char *room;

    if (!file)
        return problem_errno(why, "cannot read the JWK set", path);
    setvbuf(file, NULL, _IONBF, 0); /* no copy of a secret */
    mode = fstat(fileno(file), &info) ? 0 : info.st_mode;
    buf_init(&text, JWK_SET_BYTES_MAX + 1);
    room = buf_room(&text, JWK_SET_BYTES_MAX + 1);
    if (!room)
        rc = problem_memory(why);
    else
        text.size = fread(room, 1, JWK_SET_BYTES_MAX + 1, file);
    if (ferror(file))
        rc = problem_errno(why, "cannot read the JWK set", path);
    fclose(file);
    if (!rc) {
        rc = jwk_set_read(keys, buf_slice(&text), false, why);
        if (rc)
            problem_prefix(why, rc, "%s: ", path);
        else if (jwk_set_has_secret(*keys) && (mode & (S_IRWXG | S_IRWXO)))
            diag(DIAG_WARNING, "access",
                 "the JWK set %s has a secret and is open to others (mode "
                 "%03o)",
                 path, (unsigned)mode & 0777);
    }
    if (text.data)
        OPENSSL_cleanse(text.data, text.size); /* secrets of HS256 */
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

    atomic_init(&p->fetch, NULL);
    p->verifier = jwt_verifier_new(public_url);
    return p;
}

void
identity_provider_free(struct identity_provider *p)
{
    if (!p)
        return;
    jwk_fetch_close(atomic_load_explicit(&p->fetch, memory_order_relaxed));
    jwt_verifier_free(p->verifier);
    free(p->url);
    free(p);
}

/* On the thread of the fetches. */
static void
on_fetched(struct jwk_set *keys, void *user)
{
    struct identity_provider *p = user;

    jwt_verifier_set_keys(p->verifier, keys);
}

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
        jwk_fetch_open(&fetch, on_fetched, p, &why)) {
        DIAG_REPORT(DIAG_ERROR, "access",
                    "the settings of the identity provider cannot be used",
                    diag_text("error", why.text));
        provider_settings_free(settings);
        return;
    }
    atomic_store_explicit(&p->fetch, fetch, memory_order_release);
    jwt_verifier_expect(p->verifier, settings ? settings->issuer : "",
                        settings ? settings->audience : "");
    if (!is_same_url) {
        /* An earlier URL hands no keys over before the new ones are in place,
         * nor after. */
        if (fetch)
            jwk_fetch_from(fetch, "");
        jwt_verifier_set_keys(p->verifier,
                              settings ? jwk_set_ref(settings->keys) : NULL);
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
        jwt_verifier_find(p->verifier, text, now_us, &is_key_unknown);

    if (is_key_unknown && fetch_of(p))
        jwk_fetch_ask(fetch_of(p));
    return found;
}
