#include "broker/bucket/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

struct digest
sigv4_sign(const struct sigv4_request *r)
{
    char secret[600], day[9];
    const char *texts[] = {day, r->region, "s3", "aws4_request", NULL};
    const void *key = secret;
    int size = snprintf(secret, sizeof(secret), "AWS4%s", r->secret);
    struct buf text = {.max = SIZE_MAX};
    struct digest digest;

    snprintf(day, sizeof(day), "%.8s", r->time);
    buf_add_format(&text, "%s\n%.*s\n%s\n%s\n%s\n%s", r->method,
                   SLICE_ARG(r->path), r->query, r->headers, r->names,
                   r->payload);
    digest_sha256(&digest, buf_slice(&text));
    buf_clear(&text);
    buf_add_format(&text, "AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n",
                   r->time, day, r->region);
    buf_add_hex(&text, digest.bytes, DIGEST_SIZE);
    buf_add(&text, "", 1);
    texts[4] = text.data;
    for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
        HMAC(EVP_sha256(), key, size, (const unsigned char *)texts[i],
             strlen(texts[i]), digest.bytes, NULL);
        key = digest.bytes;
        size = DIGEST_SIZE;
    }
    buf_fini(&text);
    explicit_bzero(secret, sizeof(secret));
    return digest;
}
