/*
 * servers.h - what a handle sends to one server alone: header lines
 * (td_header), a bearer token (td_client_set_token), a certificate
 * (td_client_set_certificate).
 *
 *     servers_find ---> request ---> 401, close code 4401
 *                         ^                    |
 *                         +--- true --- servers_renew_token
 *
 * Each token has a version, which grows when its file brings another token. A
 * request remembers the version that it sent. When several requests fail with
 * one token, the client reads the file again until it has another token. It
 * never repeats a request with the token that the server has refused.
 *
 * Over http a token goes to loopback only; curl_loop.c sends none through a
 * proxy that would read it.
 *
 * The handle's thread. Freed tokens are overwritten.
 */
#pragma once

#include "base/token_file.h"
#include "proto/buf.h"

struct ssl_ctx_st;

struct server {
    struct server *next;
    char *name;   /* "https://host:port" */
    char **lines; /* "Name: value", in the order of adding */
    size_t n_lines, capacity;
    char *token_file;             /* its path; NULL: none */
    struct token_text token;      /* the present one */
    unsigned token_version;       /* 1 and up; 0: no token */
    struct problem token_failure; /* why the file could not be read again */
    char *cert;                   /* PEM file: the certificate and its chain */
    char *key;                    /* NULL: no certificate */
};

/* All zero: there are none. */
struct servers {
    struct server *first; /* the newest */
    char note[1024];      /* servers_token_note */
};

/* Writes "https://host:port" of a URL, comparable; empty: it names no server.
 * Initializes `to`, and the caller ends it in any case. */
void server_name(struct buf *to, const char *url);

/* What the server at `url` gets; NULL: nothing. */
struct server *servers_find(const struct servers *servers, const char *url);

void servers_fini(struct servers *servers);

/* Each of the following copies its texts. After an error what was before stays;
 * STATUS_MEMORY. */

/* STATUS_INVALID: `url` names no server, `line` is no header, or one whose
 * field the library writes itself. */
enum status servers_add_header(struct servers *servers, const char *url,
                               const char *line, struct problem *why);

/* Sets the token of the server at `url`: `text`, or the content of the file
 * `path`; both NULL: none any more. STATUS_INVALID: no URL of a server that may
 * get a token, or no token; STATUS_IO: of the file. */
enum status servers_set_token(struct servers *servers, const char *url,
                              const char *text, const char *path,
                              struct problem *why);

/* Sets the certificate for the server at `url`; `key` NULL: its key is in the
 * file `cert`; `cert` NULL: none any more. STATUS_INVALID: no https URL of a
 * server; STATUS_IO: of the files, which also have to fit each other. */
enum status servers_set_certificate(struct servers *servers, const char *url,
                                    const char *cert, const char *key,
                                    struct problem *why);

/* Gives a context of TLS a certificate and its key. STATUS_IO: why not. */
enum status server_use_files(struct ssl_ctx_st *tls, const char *cert,
                             const char *key, struct problem *why);

/* The server at `url` has refused the token of that version: reads its file
 * again. True: there is another one now. */
bool servers_renew_token(struct servers *servers, const char *url,
                         unsigned version);

/* True if the token for `url` is from a file, which may change. */
bool servers_may_change_token(const struct servers *servers, const char *url);

/* Returns what a 401 of the server at `url` has to do with our tokens, for the
 * user; "": nothing. Lent until the next call. */
const char *servers_token_note(struct servers *servers, const char *url);
