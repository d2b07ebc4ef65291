#include "proto/utf8.h"

#include "tests/test.h"

/* True if the first character ends well, byte by byte; *size: its bytes. */
static bool
advance_over(const unsigned char *text, size_t *size)
{
    struct utf8_place place = {0};

    *size = 0;
    do
        if (!utf8_advance(&place, text[(*size)++]))
            return false;
    while (place.n_missing > 0);
    return true;
}

TEST(byte_by_byte_is_the_same_as_at_once)
{
    static const unsigned char ends[] = {0x00, 0x7f, 0x80, 0x8f, 0x90,
                                         0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    unsigned char text[4];

    for (unsigned i = 0; i < 65536; i++)
        for (size_t k = 0; k < sizeof(ends) * sizeof(ends); k++) {
            uint32_t character;
            size_t size, stepped;

            text[0] = (unsigned char)(i >> 8);
            text[1] = (unsigned char)i;
            text[2] = ends[k / sizeof(ends)];
            text[3] = ends[k % sizeof(ends)];
            size = utf8_read((char *)text, sizeof(text), &character);
            assert_int_equal(advance_over(text, &stepped), size > 0);
            if (size > 0)
                assert_int_equal(stepped, size);
        }
}

TEST(a_byte_that_cannot_be_is_seen_at_once)
{
    static const char *const texts[] = {"\x80",      "\xc1",         "\xf5",
                                        "\xff",      "\xc3(",        "\xe0\x9f",
                                        "\xed\xa0",  "\xf0\x8f",     "\xf4\x90",
                                        "\xe2\x82(", "\xf0\x9f\x98("};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct utf8_place place = {0};
        const char *p = texts[i];

        for (; p[1]; p++)
            assert_true(utf8_advance(&place, (unsigned char)*p));
        assert_false(utf8_advance(&place, (unsigned char)*p));
    }
}
