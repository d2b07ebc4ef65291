/*
 * authorities.h - the certificate authorities of --ca-file, which the broker's
 * connections to other machines trust beside those of the system: calls and
 * bridges.
 *
 * The process has one set of them. Any thread.
 */
#pragma once

#include "proto/c.h"

struct stack_st_X509; /* OpenSSL's STACK_OF(X509) */
struct x509_store_st; /* OpenSSL's X509_STORE */

/* Takes over `all` (base/certificates.h; NULL: none) in place of the earlier
 * ones, for new connections. False: they are the same. */
bool authorities_replace(struct stack_st_X509 *all);

/* Counts the calls of authorities_replace: a store of an earlier number is
 * stale. */
unsigned authorities_number(void);

/* Adds them to a store. */
void authorities_add_to(struct x509_store_st *store);
