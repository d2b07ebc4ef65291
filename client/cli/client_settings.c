#include "client/cli/client_settings.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/commands/option_file.h"
#include "client/lib/servers.h"
#include "proto/uri.h"

#define ROW_OF struct server_options
#include "base/option_rows.h"

enum {
    SHARED_CONFIG,
    SHARED_URL,
    SHARED_TOKEN_FILE,
    SHARED_HEADER,
    SHARED_CERT,
    SHARED_CERT_KEY,
    SHARED_CACERT,
    SHARED_ALLOW_PRIVATE
};

static const struct option rows[] = {
    [SHARED_CONFIG] = {"config", "FILE", CONFIG_FILE, NULL,
                       "lines of NAME = VALUE, for url, token-file, cert, "
                       "cert-key, cacert; ~/.config/tidings/client.ini if not "
                       "given",
                       .variable = "TIDINGS_CONFIG"},
    [SHARED_URL] = {"url", "URL", URL(url, 512), NULL,
                    "the broker: a set's name is enough as SET-URL",
                    .variable = "TIDINGS_URL"},
    [SHARED_TOKEN_FILE] = {"token-file", "FILE", TEXT(token_file), NULL,
                           "bearer token for the URL's server; see below",
                           .variable = "TIDINGS_TOKEN_FILE"},
    [SHARED_HEADER] = {"header", "LINE",
                       .help = "\"Name: value\" for the URL's server and no "
                               "other",
                       .may_repeat = true},
    [SHARED_CERT] = {"cert", "FILE", TEXT(cert), NULL,
                     "our certificate for that server, PEM",
                     .variable = "TIDINGS_CERT"},
    [SHARED_CERT_KEY] = {"cert-key", "FILE", TEXT(cert_key), NULL,
                         "its private key, if elsewhere",
                         .variable = "TIDINGS_CERT_KEY"},
    [SHARED_CACERT] = {"cacert", "FILE", TEXT(cacert), NULL,
                       "trust these certificates, too",
                       .variable = "CURL_CA_BUNDLE"},
    [SHARED_ALLOW_PRIVATE] = {"allow-private", NULL, FLAG(allows_private), NULL,
                              "let a source name addresses nearer to us than "
                              "its own"},
};

const struct options settings_options = {rows, N_ELEMENTS(rows),
                                         sizeof(struct settings)};

/* The environment */

#define TOKEN_VARIABLE "TIDINGS_TOKEN"

static const char *
variable(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

/* The file */

/* Makes a path of a file start from the directory of the file that names it. */
static enum status
complete_path(char *path, size_t room, const char *file, struct problem *why)
{
    const char *slash = strrchr(file, '/');
    size_t size = slash ? (size_t)(slash + 1 - file) : 0;
    char whole[4096];

    if (!path[0] || path[0] == '/' || !size)
        return STATUS_OK;
    if (snprintf(whole, sizeof(whole), "%.*s%s", (int)size, file, path) >=
        (int)(room < sizeof(whole) ? room : sizeof(whole)))
        return problem(why, STATUS_INVALID, "%s: a path in it is too long",
                       file);
    strcpy(path, whole);
    return STATUS_OK;
}

bool
settings_usual_path(char *to, size_t size, const char *name,
                    const char *below_home, const char *file)
{
    const char *base = variable(name), *home = variable("HOME");

    to[0] = '\0';
    if (base && base[0] == '/')
        return snprintf(to, size, "%s/tidings/%s", base, file) < (int)size;
    return home && home[0] == '/' &&
           snprintf(to, size, "%s/%s/tidings/%s", home, below_home, file) <
               (int)size;
}

static enum status
read_file(const struct arguments *arguments, struct server_options *to,
          struct problem *why)
{
    const char *given =
        arguments
            ->options[command_n_options(arguments->command) + SHARED_CONFIG];
    struct option_file file = {.options = &settings_options, .values = to};
    char *const paths[] = {to->token_file, to->cert, to->cert_key, to->cacert};
    char usual[8192]; /* that a user has without naming it */
    const char *path = given ? given : variable(rows[SHARED_CONFIG].variable);
    enum status rc;

    (void)settings_usual_path(usual, sizeof(usual), "XDG_CONFIG_HOME",
                              ".config", "client.ini");
    rc = option_file_read(&file, path ? path : usual, why);
    if (rc == STATUS_NOT_FOUND && !path)
        return STATUS_OK;
    path = path ? path : usual;
    for (size_t i = 0; !rc && i < N_ELEMENTS(paths); i++)
        rc = complete_path(paths[i], sizeof(to->cert), path, why);
    if (!rc && (to->token_file[0] || to->cert[0]) && !to->url[0])
        return problem(why, STATUS_INVALID,
                       "%s: token-file and cert need a url, the broker that "
                       "they are for",
                       path);
    return rc == STATUS_NOT_FOUND ? STATUS_INVALID : rc;
}

/* Choices */

static bool
has_authorization(const struct settings *settings)
{
    static const char name[] = "Authorization:";

    for (size_t i = 0; i < settings->n_headers; i++)
        if (!strncasecmp(settings->headers[i], name, sizeof(name) - 1))
            return true;
    return false;
}

/* Takes the certificate of `from` instead, if it has one. A key belongs to the
 * certificate beside it. */
static void
take_certificate(struct server_access *to, const struct server_options *from)
{
    if (!from->cert[0])
        return;
    to->cert = from->cert;
    to->key = from->cert_key[0] ? from->cert_key : NULL;
}

bool
settings_is_same_server(const char *one, const char *other)
{
    struct buf a, b;
    bool is_same;

    server_name(&a, one);
    server_name(&b, other);
    is_same = a.size > 0 && !a.failed && !b.failed &&
              slice_equal(buf_slice(&a), buf_slice(&b));
    buf_fini(&a);
    buf_fini(&b);
    return is_same;
}

struct server_access
settings_file_access(const struct arguments *arguments, const char *url)
{
    const struct settings *settings = arguments->shared;
    const struct server_options *file = &settings->file;
    struct server_access access = {.cert = NULL};

    if (!file->url[0] || !settings_is_same_server(url, file->url))
        return access;
    if (file->token_file[0])
        access.token = (struct chosen_token){.from = "token-file",
                                             .path = file->token_file};
    take_certificate(&access, file);
    return access;
}

struct server_access
settings_access(const struct arguments *arguments, const char *url)
{
    const struct settings *settings = arguments->shared;
    struct server_access access = settings_file_access(arguments, url);
    struct chosen_token *token = &access.token;

    if (has_authorization(settings))
        *token = (struct chosen_token){.from = NULL};
    else if (settings->line.token_file[0])
        *token = (struct chosen_token){.from = "--token-file",
                                       .path = settings->line.token_file};
    else if (settings->environment.token_file[0])
        *token =
            (struct chosen_token){.from = rows[SHARED_TOKEN_FILE].variable,
                                  .path = settings->environment.token_file};
    else if (settings->token_text)
        *token = (struct chosen_token){.from = TOKEN_VARIABLE,
                                       .text = settings->token_text};
    take_certificate(&access, &settings->environment);
    take_certificate(&access, &settings->line);
    return access;
}

/* The value of a member: the command line's, the environment's or the file's;
 * NULL: none has it. */
#define CHOSEN(settings, member)                                          \
    ((settings)->line.member[0]          ? (settings)->line.member        \
     : (settings)->environment.member[0] ? (settings)->environment.member \
     : (settings)->file.member[0]        ? (settings)->file.member        \
                                         : NULL)

/* Takes what the command line has, and finds its contradictions. */
static enum status
read_line(struct settings *settings, const struct arguments *arguments,
          struct problem *why)
{
    size_t row = command_n_options(arguments->command) + SHARED_HEADER;

    settings->headers =
        calloc(arguments->n_given + 1, sizeof(settings->headers[0]));
    if (!settings->headers)
        return problem_memory(why);
    for (size_t i = 0; i < arguments->n_given; i++)
        if (arguments->given[i].row == row)
            settings->headers[settings->n_headers++] =
                arguments->given[i].value;
    if (settings->line.token_file[0] && has_authorization(settings))
        return problem(why, STATUS_INVALID,
                       "--token-file and --header Authorization exclude each "
                       "other");
    if (settings->line.cert_key[0] && !settings->line.cert[0])
        return problem(why, STATUS_INVALID, "--cert-key belongs to a --cert");
    return STATUS_OK;
}

/* Operands */

/* Makes a URL of an operand that is a set's name. */
static enum status
complete_operand(struct arguments *arguments, const struct operand *word,
                 size_t i, struct problem *why)
{
    struct settings *settings = arguments->shared;
    const char *given = arguments->operands[i];
    char **end = settings->completed;
    struct stat st;

    if (!operand_may_be(word, "SET-URL") || !set_name_is_valid(slice_of(given)))
        return STATUS_OK;
    /* There is such a file, or no broker to ask for a set of that name. */
    if ((operand_may_be(word, "DIR") || operand_may_be(word, "FILE")) &&
        (!settings->url || !lstat(given, &st)))
        return STATUS_OK;
    if (!settings->url)
        return problem(why, STATUS_INVALID,
                       "\"%s\" is no URL; for a set's name give the broker: "
                       "--url, or TIDINGS_URL",
                       given);
    while (*end)
        end++;
    if (asprintf(end, "%s/sets/%s", settings->url, given) < 0) {
        *end = NULL;
        return problem_memory(why);
    }
    arguments->operands[i] = *end;
    return STATUS_OK;
}

static enum status
complete_operands(struct arguments *arguments, struct problem *why)
{
    struct settings *settings = arguments->shared;
    struct operand words[COMMAND_OPERANDS_MAX];
    size_t n_words = operands_read(arguments->command, words);
    size_t n = (size_t)arguments->n_operands, at = 0;
    size_t *word_of = calloc(n + 2, sizeof(word_of[0]));
    enum status rc = STATUS_OK;

    settings->completed = calloc(n + 2, sizeof(settings->completed[0]));
    if (!word_of || !settings->completed) {
        free(word_of);
        return problem_memory(why);
    }
    /* Adds the broker's URL where a command lacks the URL of a broker. */
    while (at < n_words && !operand_may_be(&words[at], "BROKER-URL"))
        at++;
    if (!operands_assign(words, n_words, n, word_of) && settings->url &&
        at < n_words && at <= n) {
        memmove(arguments->operands + at + 1, arguments->operands + at,
                (n - at) * sizeof(arguments->operands[0]));
        arguments->operands[at] = (char *)(uintptr_t)settings->url;
        n = (size_t)++arguments->n_operands;
    }
    if (operands_assign(words, n_words, n, word_of))
        for (size_t i = 0; !rc && i < n; i++)
            rc = complete_operand(arguments, &words[word_of[i]], i, why);
    free(word_of);
    return rc;
}

enum exit_code
settings_prepare(struct arguments *arguments)
{
    struct settings *settings = arguments->shared;
    struct problem why = {""};
    char *token = getenv(TOKEN_VARIABLE);
    const char *authorities;
    enum status rc = STATUS_OK;

    /* Takes it out of the environment: commands of the user's (--exec) do not
     * inherit it, and /proc/PID/environ no longer shows it. */
    if (token && token[0])
        settings->token_text = strdup(token);
    if (token) {
        explicit_bzero(token, strlen(token));
        unsetenv(TOKEN_VARIABLE);
    }
    for (size_t i = 0; !rc && i < N_ELEMENTS(rows); i++) {
        const char *value =
            rows[i].variable ? variable(rows[i].variable) : NULL;

        if (value && rows[i].type != OPTION_FILE)
            rc = option_read(&rows[i], value, &settings->environment, &why);
        if (rc)
            problem_prefix(&why, rc, "%s: ", rows[i].variable);
    }
    if (!rc)
        rc = read_line(settings, arguments, &why);
    if (!rc)
        rc = read_file(arguments, &settings->file, &why);
    if (rc)
        return command_fail(arguments, rc, &why);
    authorities = CHOSEN(settings, cacert);
    if (authorities) /* libcurl reads the variable */
        setenv(rows[SHARED_CACERT].variable, authorities, 1);
    settings->url = CHOSEN(settings, url);
    rc = complete_operands(arguments, &why);
    return rc ? command_fail(arguments, rc, &why) : EXIT_GOOD;
}

void
settings_release(struct arguments *arguments)
{
    struct settings *settings = arguments->shared;

    for (char **one = settings->completed; one && *one; one++)
        free(*one);
    free(settings->completed);
    free(settings->headers);
    if (settings->token_text)
        explicit_bzero(settings->token_text, strlen(settings->token_text));
    free(settings->token_text);
}
