/* base64url, with libjose beside it. */
#include "broker/access/jose_text.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/access/jwt_maker.h"

TEST(bytes_are_written_as_libjose_writes_them_and_read_again)
{
    unsigned char bytes[256], again[256];
    char text[345];
    size_t size;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(255 - i * 7);
    for (size_t n = 0; n <= sizeof(bytes); n++) {
        struct slice these = {(const char *)bytes, n};
        char *theirs = maker_base64url(these);

        jose_base64url_write(text, these);
        assert_string_equal(text, theirs);
        assert_true(jose_base64url(again, n, &size, slice_of(text)));
        assert_int_equal(size, n);
        assert_memory_equal(again, bytes, n);
        assert_false(n && jose_base64url(again, n - 1, &size, slice_of(text)));
        free(theirs);
    }
}

TEST(other_texts_are_refused)
{
    static const char *const texts[] = {
        "A",    "AAAAA", /* no length of whole bytes */
        "AB",   "AAB",   /* stray bits: "AA", "AAA" mean the same */
        "AA==", "AAA=",  "A A", "AAA\n", "AA+A", "AA/A", "\303\244AA",
    };
    char room[16];
    size_t size;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (jose_base64url(room, sizeof(room), &size, slice_of(texts[i])))
            fail_msg("row %zu, %s: taken", i, texts[i]);
}
