#include "broker/base/authorities.h"

#include <pthread.h>
#include <stdatomic.h>

#include <openssl/x509.h>

#include "base/certificates.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static STACK_OF(X509) * present; /* under the mutex, as the others */
static unsigned char digest[CERTIFICATES_DIGEST_SIZE];
static atomic_uint number; /* changed under the mutex */

bool
authorities_replace(struct stack_st_X509 *all)
{
    unsigned char next[CERTIFICATES_DIGEST_SIZE];
    STACK_OF(X509) *last = NULL;
    bool is_new = !certificates_digest(all, next);

    pthread_mutex_lock(&mutex);
    is_new = is_new || memcmp(digest, next, sizeof(next)) != 0;
    memcpy(digest, next, sizeof(next));
    last = present;
    present = all;
    number++;
    pthread_mutex_unlock(&mutex);
    certificates_free(last);
    return is_new;
}

unsigned
authorities_number(void)
{
    return number;
}

void
authorities_add_to(struct x509_store_st *store)
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; present && i < sk_X509_num(present); i++)
        X509_STORE_add_cert(store, sk_X509_value(present, i));
    pthread_mutex_unlock(&mutex);
}
