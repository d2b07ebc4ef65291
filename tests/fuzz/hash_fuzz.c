#include <string.h>

#include "proto/resourcesync/digest.h"
#include "tests/fuzz/fuzz.h"

/* A normalised hash stays the same when it is normalised again, and is the sum
 * of its parts. */
static void
check_list(struct slice text)
{
    struct slice rest, algorithm, digits;
    struct buf once, twice, joined;
    struct problem why = {""};
    enum status rc;

    buf_init(&once, 1000);
    buf_init(&twice, 1000);
    buf_init(&joined, 1000);
    rc = hash_normalise(&once, text, &why);
    if (rc) {
        fuzz_check_problem(&why);
        FUZZ_ASSERT(once.size == 0);
    } else {
        FUZZ_ASSERT(!hash_normalise(&twice, buf_slice(&once), NULL));
        FUZZ_ASSERT(slice_equal(buf_slice(&once), buf_slice(&twice)));
        rest = buf_slice(&once);
        while (hash_next(&rest, &algorithm, &digits))
            buf_add_format(&joined, "%s%.*s:%.*s", joined.size > 0 ? " " : "",
                           SLICE_ARG(algorithm), SLICE_ARG(digits));
        FUZZ_ASSERT(slice_equal(buf_slice(&once), buf_slice(&joined)));
    }
    buf_fini(&joined);
    buf_fini(&twice);
    buf_fini(&once);
}

FUZZ_TARGET(hash, text)
{
    char written[DIGEST_TEXT_SIZE];
    struct digest digest, again;

    check_list(text);
    if (digest_read(text, &digest))
        return;
    digest_write(written, &digest);
    FUZZ_ASSERT(!digest_read((struct slice){written, sizeof(written)}, &again));
    FUZZ_ASSERT(!memcmp(&digest, &again, sizeof(digest)));
}
