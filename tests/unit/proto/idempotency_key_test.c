#include "proto/http/idempotency_key.h"

#include "proto/buf.h"
#include "tests/test.h"

static void
assert_key(struct slice value, struct slice expected)
{
    struct problem why = {""};
    struct key key;

    assert_int_equal(key_read(value, &key, &why), STATUS_OK);
    assert_true(slice_equal(key_slice(&key), expected));
}

static void
assert_no_key(struct slice value)
{
    struct problem why = {""};
    struct key key;

    assert_int_equal(key_read(value, &key, &why), STATUS_MALFORMED);
    assert_non_null(strstr(why.text, "Idempotency-Key"));
    assert_int_equal(key.size, 0);
}

/* Design section 4: a key stands bare or as a quoted string; both are the same
 * key. */
TEST(reads_a_key_bare_or_quoted)
{
    assert_key(SLICE("8e03978e-40d5"), SLICE("8e03978e-40d5"));
    assert_key(SLICE("\"8e03978e-40d5\""), SLICE("8e03978e-40d5"));
    assert_key(SLICE("x"), SLICE("x"));
    assert_key(SLICE("!a\"b\\c~"), SLICE("!a\"b\\c~"));
    assert_key(SLICE("\"a\\\"b\\\\c\""), SLICE("a\"b\\c"));
}

/* Anything else is no key, and the problem states the form of a key. */
TEST(refuses_what_is_no_key)
{
    static const char *const values[] = {
        "",      "a b",     "a\tb",    "caf\xc3\xa9", "\x7f",    "\"",
        "\"\"",  "\"a",     "\"a b\"", "\"a\"b",      "\"a\";b", "\"a\\b\"",
        "\"a\\", "\"a\\\"", "\"a\" ",  "\"\x01\"",
    };

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        assert_no_key(slice_of(values[i]));
    assert_no_key((struct slice){"a\0b", 3});
}

/* 255 characters are a key, 256 are not, in both forms. */
TEST(a_key_has_at_most_255_characters)
{
    struct buf quoted;
    char text[KEY_SIZE_MAX + 1];

    memset(text, '"', sizeof(text));
    text[0] = 'k';
    assert_key((struct slice){text, KEY_SIZE_MAX},
               (struct slice){text, KEY_SIZE_MAX});
    assert_no_key((struct slice){text, KEY_SIZE_MAX + 1});

    buf_init(&quoted, SIZE_MAX);
    BUF_ADD(&quoted, "\"k");
    for (int i = 1; i < KEY_SIZE_MAX; i++)
        BUF_ADD(&quoted, "\\\"");
    BUF_ADD(&quoted, "\"");
    assert_key(buf_slice(&quoted), (struct slice){text, KEY_SIZE_MAX});
    quoted.size--;
    BUF_ADD(&quoted, "k\"");
    assert_no_key(buf_slice(&quoted));
    buf_fini(&quoted);
}

/* A written key reads back equal, with every character that a key may have. */
TEST(writes_what_it_reads)
{
    char every[KEY_SIZE_MAX], quoted[KEY_QUOTED_MAX];
    size_t n = 0, size;

    for (char c = '!'; c <= '~'; c++)
        every[n++] = c;
    size = key_write(quoted, (struct slice){every, n});

    assert_int_equal(size, n + 4); /* quotes, two escapes */
    assert_key((struct slice){quoted, size}, (struct slice){every, n});
    memset(every, '\\', sizeof(every));
    size = key_write(quoted, (struct slice){every, sizeof(every)});
    assert_int_equal(size, KEY_QUOTED_MAX);
    assert_key((struct slice){quoted, size},
               (struct slice){every, sizeof(every)});
}
