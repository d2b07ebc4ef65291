/*
 * settings.h - what the command line and the environment say about servers: the
 * options that all commands have.
 *
 * An operand that is a URL may also be the name of a set, and the URL of a
 * broker may be missing: --url (TIDINGS_URL) completes them, before the command
 * runs.
 */
#ifndef CLIENT_CLI_SETTINGS_H
#define CLIENT_CLI_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/cli.h"

/* The values that one source has: the command line, or the environment. "" is
 * none. */
struct server_options {
    char url[512]; /* of the broker, without a slash at the end */
    char token_file[4096];
    char cert[4096];
    char cert_key[4096];
    char cacert[4096];
    bool allows_private;
};

/* The `shared` of struct arguments. */
struct settings {
    struct server_options line, environment;
    const char *url; /* of the broker; NULL: not given */

    /* For the server of the URL on the command line. */
    const char **headers; /* of --header */
    size_t n_headers;
    struct chosen_token token;
    const char *cert, *key; /* or NULL */
    bool allows_private;
    struct td_limits limits;

    char *token_text; /* of TIDINGS_TOKEN */
    char **completed; /* operands that are allocated; NULL behind the last */
};

extern const struct options settings_options;

const struct settings *settings_of(const struct arguments *arguments);

/* Reads the environment and the limits, and completes the operands: `prepare`
 * and `release` of struct program. */
enum exit_code settings_prepare(struct arguments *arguments);
void settings_release(struct arguments *arguments);

#endif
