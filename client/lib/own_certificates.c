#include "client/lib/own_certificates.h"

#include <stdlib.h>
#include <string.h>

#include "base/openssl.h"
#include "client/lib/headers.h"

static void
free_one(struct own_certificate *one)
{
    if (!one)
        return;
    free(one->server);
    free(one->cert);
    free(one->key);
    free(one);
}

void
own_certificates_free(struct own_certificate *list)
{
    while (list) {
        struct own_certificate *one = list;

        list = one->next;
        free_one(one);
    }
}

/* Reads both files as libcurl will, so that the program learns of a fault now.
 */
static enum status
check_files(const struct own_certificate *one, struct problem *why)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    enum status rc = STATUS_OK;

    if (!ctx)
        return problem_memory(why);
    SSL_CTX_set_default_passwd_cb(ctx, openssl_no_password);
    if (SSL_CTX_use_certificate_chain_file(ctx, one->cert) != 1)
        rc = problem(why, STATUS_IO, "cannot use the certificate %s: %s",
                     one->cert, openssl_reason());
    else if (SSL_CTX_use_PrivateKey_file(ctx, one->key, SSL_FILETYPE_PEM) != 1)
        rc = problem(why, STATUS_IO, "cannot use the key %s: %s", one->key,
                     openssl_reason());
    SSL_CTX_free(ctx);
    return rc;
}

static struct own_certificate **
place_of(struct own_certificate **list, struct slice server)
{
    while (*list && !slice_is(server, (*list)->server))
        list = &(*list)->next;
    return list;
}

static enum status
make_one(struct own_certificate **made, struct slice server, const char *cert,
         const char *key, struct problem *why)
{
    struct own_certificate *one = calloc(1, sizeof(*one));
    enum status rc = STATUS_OK;

    if (one) {
        one->server = slice_dup(server);
        one->cert = strdup(cert);
        one->key = strdup(key ? key : cert);
    }
    if (!one || !one->server || !one->cert || !one->key)
        rc = problem_memory(why);
    if (!rc)
        rc = check_files(one, why);
    if (rc)
        free_one(one);
    else
        *made = one;
    return rc;
}

enum status
own_certificates_set(struct own_certificate **list, const char *url,
                     const char *cert, const char *key, struct problem *why)
{
    struct own_certificate *made = NULL, **at, *former;
    enum status rc = STATUS_OK;
    struct buf server;

    headers_server(&server, url);
    if (server.failed)
        rc = problem_memory(why);
    else if (!slice_starts(buf_slice(&server), "https:"))
        rc = problem(why, STATUS_INVALID,
                     "a certificate is for the https URL of a server");
    if (!rc && cert)
        rc = make_one(&made, buf_slice(&server), cert, key, why);
    if (rc)
        goto out;
    at = place_of(list, buf_slice(&server));
    former = *at;
    if (former)
        *at = former->next;
    free_one(former);
    if (made) {
        made->next = *list;
        *list = made;
    }

out:
    buf_fini(&server);
    return rc;
}

const struct own_certificate *
own_certificates_find(const struct own_certificate *list, const char *url)
{
    struct buf server;

    if (!list)
        return NULL;
    headers_server(&server, url);
    while (list && !slice_is(buf_slice(&server), list->server))
        list = list->next;
    buf_fini(&server);
    return list;
}
