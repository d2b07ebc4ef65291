/*
 * tokens.c - the bearer token that one server gets.
 */
#include "client/lib/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/token_file.h"
#include "client/lib/headers.h"
#include "proto/buf.h"
#include "proto/http/websub.h"

struct row {
    struct row *next;
    char *server;        /* "scheme://host:port" */
    char *path;          /* of the token file; NULL: none */
    struct token token;  /* the present one */
    unsigned version;    /* 1 and up */
    struct problem told; /* why the file could not be read again */
};

struct tokens {
    struct row *rows;
    char note[1024];
};

struct tokens *
tokens_new(void)
{
    return calloc(1, sizeof(struct tokens));
}

static void
free_row(struct row *row)
{
    if (!row)
        return;
    free(row->server);
    free(row->path);
    explicit_bzero(row->token.text, sizeof(row->token.text));
    free(row);
}

void
tokens_free(struct tokens *tokens)
{
    if (!tokens)
        return;
    while (tokens->rows) {
        struct row *row = tokens->rows;

        tokens->rows = row->next;
        free_row(row);
    }
    free(tokens);
}

static struct row *
row_of(const struct tokens *tokens, const char *url)
{
    struct row *row = tokens->rows;
    struct buf server;

    if (!row)
        return NULL;
    headers_server(&server, url);
    while (row && !slice_is(buf_slice(&server), row->server))
        row = row->next;
    buf_fini(&server);
    return row;
}

static enum status
check_server(const struct buf *server, struct problem *why)
{
    struct slice text = buf_slice(server);

    if (!text.size)
        return problem(why, STATUS_INVALID,
                       "no URL of a server that a token is for");
    if (!slice_starts(text, "https:") && !websub_is_loopback(text))
        return problem(why, STATUS_INVALID,
                       "a token is sent over https, or over http to this "
                       "machine itself, and not to %.*s",
                       SLICE_ARG(text));
    return STATUS_OK;
}

static enum status
read_token(struct row *row, const char *text, const char *path,
           struct problem *why)
{
    enum status rc;

    if (path)
        return token_file_read(path, false, &row->token, why);
    rc = token_check(slice_of(text), "the token", why);
    if (!rc)
        strcpy(row->token.text, text);
    return rc;
}

static void
remove_row(struct tokens *tokens, const char *server)
{
    struct row **at = &tokens->rows;

    while (*at && strcmp((*at)->server, server))
        at = &(*at)->next;
    if (*at) {
        struct row *row = *at;

        *at = row->next;
        free_row(row);
    }
}

enum status
tokens_set(struct tokens *tokens, const char *url, const char *text,
           const char *path, struct problem *why)
{
    struct row *row = calloc(1, sizeof(*row));
    struct buf server;
    enum status rc;

    headers_server(&server, url);
    rc = row && !server.failed ? check_server(&server, why)
                               : problem_memory(why);
    if (rc)
        goto out;
    row->server = slice_dup(buf_slice(&server));
    row->path = path ? strdup(path) : NULL;
    row->version = 1;
    if (!row->server || (path && !row->path)) {
        rc = problem_memory(why);
        goto out;
    }
    if (path || text)
        rc = read_token(row, text, path, why);
    if (rc)
        goto out;
    remove_row(tokens, row->server);
    if (path || text) {
        row->next = tokens->rows;
        tokens->rows = row;
        row = NULL;
    }

out:
    buf_fini(&server);
    free_row(row);
    return rc;
}

const char *
tokens_find(const struct tokens *tokens, const char *url, unsigned *version)
{
    const struct row *row = row_of(tokens, url);

    *version = row ? row->version : 0;
    return row ? row->token.text : NULL;
}

bool
tokens_may_change(const struct tokens *tokens, const char *url)
{
    const struct row *row = row_of(tokens, url);

    return row && row->path && row->token.is_regular;
}

bool
tokens_renew(struct tokens *tokens, const char *url, unsigned version)
{
    struct row *row = row_of(tokens, url);
    struct token token;
    bool is_new = false;

    if (!row || version == 0)
        return false;
    if (row->version != version) /* another request has read it already */
        return true;
    if (!row->path || !row->token.is_regular)
        return false;
    problem_clear(&row->told);
    if (!token_file_read(row->path, true, &token, &row->told) &&
        strcmp(token.text, row->token.text) != 0) {
        row->token = token; /* overwrites the former one */
        row->version++;
        is_new = true;
    }
    explicit_bzero(token.text, sizeof(token.text));
    return is_new;
}

const char *
tokens_note(struct tokens *tokens, const char *url)
{
    const struct row *row = row_of(tokens, url);

    tokens->note[0] = '\0';
    if (row && row->told.rc)
        snprintf(tokens->note, sizeof(tokens->note), "%.1000s", row->told.text);
    else if (row && row->path)
        snprintf(tokens->note, sizeof(tokens->note),
                 "the token of %.900s was sent", row->path);
    else if (!row && tokens->rows)
        snprintf(tokens->note, sizeof(tokens->note),
                 "no token was sent: it is for %.900s alone",
                 tokens->rows->server);
    return tokens->note;
}
