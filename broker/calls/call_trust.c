/*
 * The certificate authorities that a caller trusts: those of libcurl's built-in
 * file, unless the environment names another. Without the file the caller
 * trusts no server.
 *
 * The file is read before the first HTTPS call: that takes some 20 ms, once,
 * and some megabytes.
 */
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "broker/base/diag.h"
#include "broker/calls/caller_state.h"
#include "proto/slice.h"

bool
call_trust_init(struct call_trust *trust,
                const struct curl_version_info_data *version)
{
    const char *path = getenv("SSL_CERT_FILE");

    if (!path || !*path)
        path = version->age >= CURLVERSION_SEVENTH ? version->cainfo : NULL;
    if (!path)
        path = X509_get_default_cert_file();
    trust->path = slice_dup(slice_of(path));
    return trust->path != NULL;
}

static struct x509_store_st *
read_authorities(const char *path)
{
    X509_STORE *authorities = X509_STORE_new();

    if (authorities &&
        X509_STORE_load_locations(authorities, path, NULL) != 1) {
        ERR_clear_error();
        DIAG(DIAG_WARNING, "net",
             "no certificates of authorities: nobody can be called by HTTPS",
             diag_text("file", path));
    }
    return authorities;
}

/* In libcurl's own way every shard would read and keep the file. */
CURLcode
call_trust_set(CURL *easy, void *ssl_ctx, void *user)
{
    struct call_trust *trust = user;

    (void)easy;
    if (!trust->authorities)
        trust->authorities = read_authorities(trust->path);
    if (!trust->authorities)
        return CURLE_OUT_OF_MEMORY;
    SSL_CTX_set1_cert_store(ssl_ctx, trust->authorities);
    return CURLE_OK;
}

void
call_trust_fini(struct call_trust *trust)
{
    free(trust->path);
    X509_STORE_free(trust->authorities);
}
