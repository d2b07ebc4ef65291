/*
 * servers.c - what a handle sends to one server alone.
 */
#include "client/lib/servers.h"

#include "base/array.h"
#include "base/certificates.h"
#include "proto/http/websub.h"

void
server_name(struct buf *to, const char *url)
{
    struct slice text = slice_of(url);
    const char *fragment = strchr(url, '#');

    if (fragment)
        text.size = (size_t)(fragment - url);
    buf_init(to, 4 * WEBSUB_URL_MAX);
    if (websub_check_url(text, "url", NULL))
        return;
    if (!strncasecmp(url, "https:", 6))
        BUF_ADD(to, "https://");
    else
        BUF_ADD(to, "http://");
    websub_authority(to, text);
}

static struct server *
find_name(const struct servers *servers, const struct buf *name)
{
    struct server *server = servers->first;

    while (server && !slice_is(buf_slice(name), server->name))
        server = server->next;
    return server;
}

struct server *
servers_find(const struct servers *servers, const char *url)
{
    struct server *server;
    struct buf name;

    if (!servers->first)
        return NULL;
    server_name(&name, url);
    server = find_name(servers, &name);
    buf_fini(&name);
    return server;
}

/* Finds the server of that name, or adds it. NULL: no memory. */
static struct server *
open_server(struct servers *servers, const struct buf *name,
            struct problem *why)
{
    struct server *server = find_name(servers, name);

    if (server)
        return server;
    server = calloc(1, sizeof(*server));
    if (server)
        server->name = slice_dup(buf_slice(name));
    if (!server || !server->name) {
        free(server);
        problem_memory(why);
        return NULL;
    }
    server->next = servers->first;
    servers->first = server;
    return server;
}

void
servers_fini(struct servers *servers)
{
    struct server *server;

    while ((server = servers->first)) {
        servers->first = server->next;
        for (size_t i = 0; i < server->n_lines; i++)
            free(server->lines[i]);
        free(server->lines);
        free(server->name);
        free(server->token_file);
        free(server->cert);
        free(server->key);
        explicit_bzero(server, sizeof(*server));
        free(server);
    }
}

/* Header lines */

/* "Name: value": a token, a colon, nothing that ends a line. */
static bool
is_header(const char *line)
{
    size_t name = strcspn(line, ":");

    if (!name || !line[name] || strcspn(line, " \t\"(),/;<=>?@[\\]{}") < name)
        return false;
    for (const char *c = line; *c; c++)
        if (slice_is_control(*c))
            return false;
    return true;
}

/* True if the field frames a message, names its server, or belongs to the
 * handshake of a WebSocket (RFC 9110, RFC 9112, RFC 6455). The library writes
 * these fields itself and expects the answer to match. */
static bool
is_own(struct slice name)
{
    static const char *const own[] = {
        "Connection", "Content-Length",    "Host",    "Keep-Alive",
        "TE",         "Transfer-Encoding", "Trailer", "Upgrade",
    };

    for (size_t i = 0; i < N_ELEMENTS(own); i++)
        if (slice_is_word(name, own[i]))
            return true;
    return slice_starts_word(name, "Sec-WebSocket-");
}

enum status
servers_add_header(struct servers *servers, const char *url, const char *line,
                   struct problem *why)
{
    struct slice rest = slice_of(line), field = slice_take(&rest, ':');
    struct server *server;
    enum status rc = STATUS_OK;
    struct buf name;

    server_name(&name, url);
    if (name.failed)
        rc = problem_memory(why);
    else if (!name.size || !is_header(line))
        rc = problem(why, STATUS_INVALID,
                     "not a header, Name: value, for a server: \"%s\"",
                     problem_quote(slice_of(line)).text);
    else if (is_own(field))
        rc = problem(why, STATUS_INVALID,
                     "the library itself writes the field \"%s\"",
                     problem_quote(field).text);
    else if (!(server = open_server(servers, &name, why)))
        rc = STATUS_MEMORY;
    else if (!ONE_MORE(server->lines, &server->capacity, server->n_lines) ||
             !(server->lines[server->n_lines] = strdup(line)))
        rc = problem_memory(why);
    else
        server->n_lines++;
    buf_fini(&name);
    return rc;
}

/* Tokens */

enum status
servers_set_token(struct servers *servers, const char *url, const char *text,
                  const char *path, struct problem *why)
{
    struct token_text token = {.text = ""};
    char *file = path ? strdup(path) : NULL;
    struct server *server = NULL;
    enum status rc = STATUS_OK;
    struct buf name;

    server_name(&name, url);
    if (name.failed || (path && !file))
        rc = problem_memory(why);
    else if (!name.size)
        rc = problem(why, STATUS_INVALID,
                     "no URL of a server that a token is for");
    else if (!slice_starts(buf_slice(&name), "https:") &&
             !websub_is_loopback(buf_slice(&name)))
        rc = problem(why, STATUS_INVALID,
                     "a token is sent over https, or over http to this "
                     "machine itself, and not to %.*s",
                     SLICE_ARG(buf_slice(&name)));
    else if (path)
        rc = token_file_read(path, false, &token, why);
    else if (text && !(rc = token_check(slice_of(text), "the token", why)))
        strcpy(token.text, text);
    if (!rc)
        server = open_server(servers, &name, why);
    if (server) {
        free(server->token_file);
        server->token_file = file;
        server->token = token;
        server->token_version = path || text;
        problem_clear(&server->token_failure);
    } else {
        free(file);
        rc = rc ? rc : STATUS_MEMORY;
    }
    explicit_bzero(&token, sizeof(token));
    buf_fini(&name);
    return rc;
}

bool
servers_may_change_token(const struct servers *servers, const char *url)
{
    const struct server *server = servers_find(servers, url);

    return server && server->token_file && server->token.is_regular;
}

bool
servers_renew_token(struct servers *servers, const char *url, unsigned version)
{
    struct server *server = servers_find(servers, url);
    struct token_text token;
    bool is_new = false;

    if (!server || version == 0 || !server->token_version)
        return false;
    if (server->token_version != version) /* another request has read it */
        return true;
    if (!server->token_file || !server->token.is_regular)
        return false;
    problem_clear(&server->token_failure);
    if (!token_file_read(server->token_file, true, &token,
                         &server->token_failure) &&
        strcmp(token.text, server->token.text) != 0) {
        server->token = token; /* overwrites the former one */
        server->token_version++;
        is_new = true;
    }
    explicit_bzero(token.text, sizeof(token.text));
    return is_new;
}

const char *
servers_token_note(struct servers *servers, const char *url)
{
    const struct server *server = servers_find(servers, url);
    const struct server *other = servers->first;
    size_t size = sizeof(servers->note);

    while (other && !other->token_version)
        other = other->next;
    servers->note[0] = '\0';
    if (server && server->token_failure.rc)
        snprintf(servers->note, size, "%.1000s", server->token_failure.text);
    else if (server && server->token_file)
        snprintf(servers->note, size, "the token of %.900s was sent",
                 server->token_file);
    else if ((!server || !server->token_version) && other)
        snprintf(servers->note, size,
                 "no token was sent: it is for %.900s alone", other->name);
    return servers->note;
}

/* Certificates */

enum status
server_use_files(SSL_CTX *tls, const char *cert, const char *key,
                 struct problem *why)
{
    SSL_CTX_set_default_passwd_cb(tls, openssl_no_password);
    if (SSL_CTX_use_certificate_chain_file(tls, cert) != 1)
        return problem(why, STATUS_IO, "cannot use the certificate %s: %s",
                       cert, openssl_reason());
    if (SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
        return problem(why, STATUS_IO, "cannot use the key %s: %s", key,
                       openssl_reason());
    return STATUS_OK;
}

enum status
servers_set_certificate(struct servers *servers, const char *url,
                        const char *cert, const char *key, struct problem *why)
{
    /* Reads both files as libcurl will, so that the program learns of a fault
     * now. */
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    char *its_cert = cert ? strdup(cert) : NULL;
    char *its_key = cert ? strdup(key ? key : cert) : NULL;
    struct server *server = NULL;
    enum status rc = STATUS_OK;
    struct buf name;

    server_name(&name, url);
    if (name.failed || !tls || (cert && (!its_cert || !its_key)))
        rc = problem_memory(why);
    else if (!slice_starts(buf_slice(&name), "https:"))
        rc = problem(why, STATUS_INVALID,
                     "a certificate is for the https URL of a server");
    else if (cert)
        rc = server_use_files(tls, its_cert, its_key, why);
    if (!rc)
        server = open_server(servers, &name, why);
    if (server) {
        free(server->cert);
        free(server->key);
        server->cert = its_cert;
        server->key = its_key;
    } else {
        free(its_cert);
        free(its_key);
        rc = rc ? rc : STATUS_MEMORY;
    }
    SSL_CTX_free(tls);
    buf_fini(&name);
    return rc;
}
