/*
 * identity_provider.h - the identity provider whose JSON Web Tokens the broker
 * accepts: its settings, its keys and its tokens.
 *
 *     --jwt-keys FILE --> read by whoever reads settings (setting_files.h) --+
 *     --jwt-keys URL ---> jwk_fetch.h ---------------------------------------+
 *                              ^                                             |
 *                              | a token of an unknown key                   v
 *     requests -----------> identity_provider_find <---- identity_provider_use
 *
 * The keys of a URL stay while the provider is away. A broker that starts
 * meanwhile waits for it a little, then starts without the keys: it refuses the
 * provider's tokens until they come, and its own tokens work. It keeps no copy
 * on the disk: a key that the provider has withdrawn would come back with it.
 *
 * A token and its principal stay until the token ends, until others need the
 * room, or until its key is in no set, or the issuer or the audience is another
 * one: then the principal ends, and with it all that acts for it
 * (principal_is_over). A token whose principal is in use stays whatever comes.
 *
 * Each token is verified once, and then found by its hash. A look-up has a lock
 * of its own, also for a walk through all tokens when the keys change.
 * Signatures are verified side by side; a change of keys waits for those at
 * work.
 */
#pragma once

#include "broker/access/jwk_set.h"
#include "broker/access/principal.h"

/* --jwt-keys, --jwt-issuer and --jwt-audience, as they were given; "": not. And
 * --jwt-client and --jwt-scope, for people. */
struct provider_options {
    const char *keys, *issuer, *audience, *client, *scope;
};

/* Checks that the first three were given or none, and the URLs. STATUS_INVALID:
 * `why` names the option. */
MUST_CHECK enum status
provider_options_check(const struct provider_options *options,
                       struct problem *why);

/* The settings with the keys of a file; NULL: there is no provider. */
struct provider_settings;

/* Options that are good. A failure names the file. */
MUST_CHECK enum status
provider_settings_read(struct provider_settings **settings,
                       const struct provider_options *options,
                       struct problem *why);
void provider_settings_free(struct provider_settings *settings);

/* Tokens that are remembered while no request, stream or subscription uses
 * them. */
#define JWT_VERIFIED_MAX 4096

struct identity_provider;

/* None as yet. `public_url` is lent, and not read before the first token. */
struct identity_provider *identity_provider_new(const char *public_url);
void identity_provider_free(struct identity_provider *p); /* NULL is allowed */

/* Takes over the settings; NULL: no token is accepted any more. Keys from the
 * same URL as before stay. A failure is logged, and changes nothing. The thread
 * that made it. */
void identity_provider_use(struct identity_provider *p,
                           struct provider_settings *settings);

/* Waits until the keys of a URL are there, or cannot be had; at most
 * JWK_FETCH_TIMEOUT_US. The thread that made it. */
void identity_provider_await(struct identity_provider *p);

/* Returns a reference to the principal of a JSON Web Token, which is not over.
 * NULL: it is not accepted. Any thread. */
struct principal *identity_provider_find(struct identity_provider *p,
                                         struct slice text, int64_t now_us);

#define PROVIDER_TEXT_SIZE 512

/* What the console signs people in with (OpenID Connect). `origin`: the scheme,
 * host and port of the issuer, for a Content-Security-Policy. */
struct provider_sign_in {
    char issuer[PROVIDER_TEXT_SIZE], origin[PROVIDER_TEXT_SIZE];
    char client[PROVIDER_TEXT_SIZE], scope[PROVIDER_TEXT_SIZE];
};

/* False: there is no --jwt-client. Any thread. */
bool identity_provider_sign_in(struct identity_provider *p,
                               struct provider_sign_in *sign_in);

/* Parts of it: */

/* Tokens are of this issuer and for this audience from now on; an empty issuer:
 * none is accepted. */
void identity_provider_expect(struct identity_provider *p, const char *issuer,
                              const char *audience);

/* Takes over the reference to `keys`. NULL: none is known. A jwk_fetched_fn. */
void identity_provider_set_keys(struct jwk_set *keys, void *provider);

/* As identity_provider_find, but a refusal is only logged, at level debug. Sets
 * *is_key_unknown if new keys might accept the token. */
struct principal *identity_provider_verify(struct identity_provider *p,
                                           struct slice text, int64_t now_us,
                                           bool *is_key_unknown);
