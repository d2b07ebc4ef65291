#include "proto/http/chunked.h"

#include <stdlib.h>

#include "proto/buf.h"
#include "tests/test.h"

/* Reads `text` `step` bytes at a time, from blocks of just these bytes, and
 * collects the data. *taken: bytes of the body. */
static enum chunked_next
read_cut(struct slice text, size_t step, struct buf *data, size_t *taken,
         struct problem *why)
{
    enum chunked_next next = CHUNKED_MORE;
    struct chunked body;

    body = (struct chunked){0};
    *taken = 0;
    while (next == CHUNKED_MORE && *taken < text.size) {
        size_t size = text.size - *taken < step ? text.size - *taken : step;
        char *copy = malloc(size);
        struct slice bytes = {copy, size}, piece = {NULL, 0}, same;

        memcpy(copy, text.data + *taken, size);
        while ((next = chunked_read(&body, &bytes, &piece, why)) ==
               CHUNKED_DATA) {
            assert_true(piece.size > 0);
            buf_add_slice(data, piece);
        }
        *taken += size - bytes.size;
        same = bytes;
        if (next != CHUNKED_MORE)
            assert_int_equal(chunked_read(&body, &same, &piece, NULL), next);
        assert_int_equal(same.size, bytes.size);
        free(copy);
    }
    return next;
}

static const size_t steps[] = {SIZE_MAX, 1, 2, 3, 5};

#define N_STEPS (sizeof(steps) / sizeof(steps[0]))

TEST(bodies_are_read_however_they_are_cut)
{
    static const struct {
        const char *text, *data;
    } rows[] = {
        {"0\r\n\r\n", ""},
        {"000\r\n\r\n", ""},
        {"5\r\nhello\r\n0\r\n\r\n", "hello"},
        {"5\r\nhello\r\n00000000000000A\r\n, \r\n world\r\n0\r\n\r\n",
         "hello, \r\n world"},
        {"0a\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
        {"1;a\r\nx\r\n1 \t; a=\"b;\\\"\xc3\xa4\"\t\r\ny\r\n0;last\r\n\r\n",
         "xy"},
        {"1;\r\nx\r\n0\r\n\r\n", "x"},
        {"1\r\nx\r\n0\r\nDigest: a\tb\xff\r\nX:\r\nContent-Length: 7\r\n\r\n",
         "x"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t k = 0; k < N_STEPS; k++) {
            struct problem why = {""};
            struct buf text, data;
            size_t taken;

            buf_init(&text, SIZE_MAX);
            buf_init(&data, SIZE_MAX);
            buf_add_text(&text, rows[i].text);
            buf_add_text(&text, "GET /");
            if (read_cut(buf_slice(&text), steps[k], &data, &taken, &why) !=
                    CHUNKED_END ||
                taken != strlen(rows[i].text) ||
                !slice_is(buf_slice(&data), rows[i].data))
                fail_msg("step %zu: \"%s\", %zu taken of:\n%s", steps[k],
                         why.text, taken, rows[i].text);
            buf_fini(&text);
            buf_fini(&data);
        }
}

TEST(what_is_broken)
{
    static const char size[] = "a chunk does not begin with a hexadecimal size";
    static const char hexadecimal[] = "the size of a chunk is not hexadecimal";
    static const char digits[] = "the size of a chunk has more than 15 digits";
    static const char cr[] = "a carriage return without a line feed";
    static const char longer[] = "a chunk is longer than its size";
    static const char control[] =
        "a control character behind the size of a chunk";
    static const char trailer[] = "a trailer without a name and a colon";

    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"\r\n", size},
        {"g\r\n", size},
        {" 5\r\n", size},
        {"+5\r\n", size},
        {"-1\r\n", size},
        {";a\r\n", size},
        {"0x5\r\n", hexadecimal},
        {"5g\r\n", hexadecimal},
        {"5_0\r\n", hexadecimal},
        {"5 \r\n", control},
        {"5 5\r\n", hexadecimal},
        {"5,5\r\n", hexadecimal},
        {"5:\r\n", hexadecimal},
        {"5\nhello", hexadecimal},
        {"0000000000000005\r\n", digits},
        {"ffffffffffffffff\r\n", digits},
        {"5\rhello", cr},
        {"5;a\rhello", cr},
        {"5;a\nhello\r\n", control},
        {"5;\x7f\r\n", control},
        {"5 \n", control},
        {"5;\"\r\"\r\n", cr},
        {"2\r\nabc\r\n", longer},
        {"2\r\nab\n", longer},
        {"2\r\nab\rx", cr},
        {"2\r\nab0\r\n\r\n", longer},
        {"0\n", hexadecimal},
        {"0\r\n\n", trailer},
        {"0\r\n\rx", cr},
        {"0\r\n: a\r\n\r\n", trailer},
        {"0\r\nX\r\n\r\n", trailer},
        {"0\r\nX : a\r\n\r\n", trailer},
        {"0\r\nX: a\r\n b\r\n\r\n", trailer},
        {"0\r\nX: a\n", "a control character in a trailer"},
        {"0\r\nX: a\rb", cr},
        {"0\r\nX: \x01", "a control character in a trailer"},
        {"0\r\nGET / HTTP/1.1\r\n", trailer},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t k = 0; k < N_STEPS; k++) {
            struct problem why = {""};
            struct buf data;
            size_t taken;

            buf_init(&data, SIZE_MAX);
            if (read_cut(slice_of(rows[i].text), steps[k], &data, &taken,
                         &why) != CHUNKED_BROKEN ||
                strcmp(why.text, rows[i].sentence))
                fail_msg("step %zu: \"%s\", not \"%s\", for:\n%s", steps[k],
                         why.text, rows[i].sentence, rows[i].text);
            buf_fini(&data);
        }
}

TEST(a_nul_is_a_control_character)
{
    static const struct slice texts[] = {
        {"5;\0\r\n", 5}, {"0\r\nX:\0\r\n", 8}, {"\0", 1}, {"5\0\r\n", 4}};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct slice bytes = texts[i], data;
        struct chunked body;

        body = (struct chunked){0};
        assert_int_equal(chunked_read(&body, &bytes, &data, NULL),
                         CHUNKED_BROKEN);
    }
}

static enum chunked_next
read_repeated(struct chunked *body, const char *text, size_t n,
              struct problem *why)
{
    enum chunked_next next = CHUNKED_MORE;
    struct slice data;

    while (n-- > 0 && next != CHUNKED_BROKEN) {
        struct slice bytes = slice_of(text);

        while ((next = chunked_read(body, &bytes, &data, why)) == CHUNKED_DATA)
            ;
    }
    return next;
}

TEST(extensions_and_trailers_have_limits)
{
    static const char too_long[] =
        "the extensions of a chunked body are too long";
    struct problem why = {""};
    struct chunked body;

    /* One: the ";" counts, too. */
    body = (struct chunked){0};
    read_repeated(&body, "1;", 1, &why);
    assert_int_equal(read_repeated(&body, "a", CHUNKED_EXTENSION_MAX - 1, &why),
                     CHUNKED_MORE);
    assert_int_equal(read_repeated(&body, "a", 1, &why), CHUNKED_BROKEN);
    assert_string_equal(why.text, too_long);
    body = (struct chunked){0};
    read_repeated(&body, "1", 1, &why);
    assert_int_equal(read_repeated(&body, " ", CHUNKED_EXTENSION_MAX, &why),
                     CHUNKED_MORE);
    assert_int_equal(read_repeated(&body, " ", 1, &why), CHUNKED_BROKEN);

    /* All of a body. */
    body = (struct chunked){0};
    why.text[0] = '\0';
    assert_int_equal(read_repeated(&body, "1;a=45678\r\nx\r\n",
                                   CHUNKED_EXTENSIONS_MAX / 8, &why),
                     CHUNKED_MORE);
    assert_int_equal(read_repeated(&body, "1;", 1, &why), CHUNKED_BROKEN);
    assert_string_equal(why.text, too_long);

    /* Trailers, with their line ends: 8 bytes each. */
    body = (struct chunked){0};
    read_repeated(&body, "0\r\n", 1, &why);
    assert_int_equal(
        read_repeated(&body, "ab:cde\r\n", CHUNKED_TRAILERS_MAX / 8, &why),
        CHUNKED_MORE);
    assert_int_equal(read_repeated(&body, "\r\n", 1, &why), CHUNKED_END);

    body = (struct chunked){0};
    read_repeated(&body, "0\r\nx:\r\n", 1, &why);
    assert_int_equal(
        read_repeated(&body, "ab:cde\r\n", CHUNKED_TRAILERS_MAX / 8, &why),
        CHUNKED_BROKEN);
    assert_string_equal(why.text, "the trailers have more than 8,192 bytes");
}

TEST(the_largest_chunk)
{
    struct chunked body;
    struct slice bytes = SLICE("fffffffffffffff\r\nab"), data;

    body = (struct chunked){0};
    assert_int_equal(chunked_read(&body, &bytes, &data, NULL), CHUNKED_DATA);
    assert_int_equal(data.size, 2);
    assert_true(body.left == 0xfffffffffffffff - 2);
}
