/*
 * own_certificates.h - the certificates of this client, each for one server
 * (td_client_set_certificate).
 *
 * The handle's thread.
 */
#ifndef CLIENT_LIB_OWN_CERTIFICATES_H
#define CLIENT_LIB_OWN_CERTIFICATES_H

#include "proto/problem.h"
#include "proto/status.h"

struct own_certificate {
    struct own_certificate *next;
    char *server; /* "https://host:port" */
    char *cert;   /* PEM files: the certificate and its chain */
    char *key;
};

/* Sets the certificate for the server at `url`, in the list; `key` NULL: its
 * key is in the file `cert`; `cert` NULL: none any more. Copies all texts. On
 * an error the former certificate stays.
 *
 * STATUS_INVALID: no https URL of a server; STATUS_IO: of the files, which also
 * have to fit each other; STATUS_MEMORY. */
enum status own_certificates_set(struct own_certificate **list, const char *url,
                                 const char *cert, const char *key,
                                 struct problem *why);

/* Returns the certificate for the server at `url`; NULL: none. */
const struct own_certificate *
own_certificates_find(const struct own_certificate *list, const char *url);

void own_certificates_free(struct own_certificate *list); /* NULL is allowed */

#endif
