/*
 * client_settings.h - what the command line, the environment and the client
 * file say about servers: the options that all commands have. The command line
 * comes before the environment, and the environment before the file.
 *
 * The file is $XDG_CONFIG_HOME/tidings/client.ini, or ~/.config/tidings/..., or
 * that of --config (option_file.h):
 *
 *     url = https://broker.example
 *     token-file = broker.token
 *
 * Paths in it start from its directory. Its token and its certificate are for
 * the server of its url, and for no other.
 *
 * An operand that is a URL may also be the name of a set, and the URL of a
 * broker may be missing: --url (TIDINGS_URL) completes them, before the command
 * runs.
 */
#pragma once

#include "client/cli/cli.h"

/* The values that one source has: the command line, the environment, the file.
 * "" is none. */
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
    struct server_options line, environment, file;
    const char *url; /* of the broker; NULL: not given */

    const char **headers; /* of --header */
    size_t n_headers;

    char *token_text; /* of TIDINGS_TOKEN */
    char **completed; /* operands that are allocated; NULL behind the last */
};

/* What a server gets. */
struct server_access {
    struct chosen_token token;
    const char *cert, *key; /* or NULL */
};

extern const struct options settings_options;

/* Writes the path of a file that a user has without naming it:
 * $NAME/tidings/FILE, else ~/BELOW_HOME/tidings/FILE. False: there is neither,
 * or it is too long. */
bool settings_usual_path(char *to, size_t size, const char *name,
                         const char *below_home, const char *file);

/* What the server of `url`, the URL on the command line, gets; lent. */
struct server_access settings_access(const struct arguments *arguments,
                                     const char *url);

/* The same of another server: what the client file has for it. */
struct server_access settings_file_access(const struct arguments *arguments,
                                          const char *url);

/* True if both URLs are of the same server. */
bool settings_is_same_server(const char *one, const char *other);

/* Reads the environment and the file, and completes the operands:
 * `prepare` and `release` of struct program. */
enum exit_code settings_prepare(struct arguments *arguments);
void settings_release(struct arguments *arguments);
