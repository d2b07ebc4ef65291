#include "proto/buf.h"
#include "proto/http/ws_handshake.h"
#include "tests/fuzz/fuzz.h"

#define PLAIN "permessage-deflate"

/* Agrees on `before`, `offers` and `after` as one list. */
static enum status
agree(const char *before, struct slice offers, const char *after,
      const char **answer)
{
    enum status rc;
    struct buf list;

    buf_init(&list, SIZE_MAX);
    buf_add_text(&list, before);
    buf_add_slice(&list, offers);
    buf_add_text(&list, after);
    rc = ws_deflate_agree(buf_slice(&list), answer, NULL);
    buf_fini(&list);
    return rc;
}

/* Other offers around a list change neither its validity nor the answer; the
 * first acceptable one counts. */
FUZZ_TARGET(ws_deflate, offers)
{
    struct problem why = {""};
    const char *answer, *other, *plain;
    enum status rc = ws_deflate_agree(offers, &answer, &why);

    FUZZ_ASSERT(!ws_deflate_agree(SLICE(PLAIN), &plain, NULL) && plain);
    if (rc) {
        FUZZ_ASSERT(rc == STATUS_MALFORMED && !answer);
        fuzz_check_problem(&why);
        /* An empty list is none alone, but may be part of one. */
        if (slice_trimmed(offers).size > 0 &&
            !memchr(offers.data, ',', offers.size)) {
            FUZZ_ASSERT(agree(PLAIN ",", offers, "", &other) == rc && !other);
            FUZZ_ASSERT(agree("", offers, "," PLAIN, &other) == rc && !other);
        }
        return;
    }
    FUZZ_ASSERT(!agree("x;y=\"1\",", offers, "", &other) && other == answer);
    FUZZ_ASSERT(!agree(",", offers, ", ,x;y", &other) && other == answer);
    FUZZ_ASSERT(!agree(PLAIN ",", offers, "", &other) && other == plain);
    FUZZ_ASSERT(!agree("", offers, "," PLAIN, &other) &&
                other == (answer ? answer : plain));
    if (answer) /* a client could offer the answer */
        FUZZ_ASSERT(!ws_deflate_agree(slice_of(answer), &other, NULL) &&
                    other == answer);
}
