#include <stdlib.h>

#include "proto/http/webhook_signature.h"
#include "tests/fuzz/fuzz.h"

static enum status
check(struct slice header, struct slice secret, struct slice body)
{
    enum status rc = signature_check(header, secret, body);

    FUZZ_ASSERT(!rc || rc == STATUS_MALFORMED || rc == STATUS_INVALID);
    return rc;
}

/* A secret, a line end, a header: the header is right if and only if it is the
 * signature of the body with the secret, with digits in any case; and a secret
 * of Standard Webhooks signs so, too. */
FUZZ_TARGET(signature, header)
{
    struct slice secret = slice_take(&header, '\n');
    struct slice body = SLICE("a body"), other = SLICE("another body");
    struct slice value = slice_trimmed(header);
    char right[SIGNATURE_SIZE], webhook[WEBHOOK_SIGNATURE_SIZE];
    enum signature_method method;
    struct signer *signer;
    enum status rc = check(header, secret, body);

    if (signature_method_of(slice_take(&value, '='), &method)) {
        FUZZ_ASSERT(rc == STATUS_MALFORMED);
        return;
    }
    signer = signer_new(method, secret);
    FUZZ_ASSERT(signer && !signer_sign(signer, body, right));
    FUZZ_ASSERT(strlen(right) < sizeof(right));
    FUZZ_ASSERT(!check(slice_of(right), secret, body));
    FUZZ_ASSERT(check(slice_of(right), secret, other) == STATUS_INVALID);
    value = slice_trimmed(header);
    FUZZ_ASSERT(!rc == (value.size == strlen(right) &&
                        !strncasecmp(value.data, right, value.size)));
    FUZZ_ASSERT(!signer_sign_webhook(signer, SLICE("id"), 7, body, webhook) ==
                signer_is_webhook(signer));
    FUZZ_ASSERT(!signer_is_webhook(signer) || !memcmp(webhook, "v1,", 3));
    signer_free(signer);
}
