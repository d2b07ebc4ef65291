#include "proto/resourcesync/digest.h"

#include "tests/test.h"

#define MD5  "d41d8cd98f00b204e9800998ecf8427e"
#define SHA1 "da39a3ee5e6b4b0d3255bfef95601890afd80709"
#define SHA256 \
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static void
assert_normal(const char *text, const char *normal)
{
    struct buf b;

    buf_init(&b, 1000);
    BUF_ADD(&b, "x");
    assert_int_equal(hash_normalise(&b, slice_of(text), NULL), 0);
    BUF_ADD(&b, "");
    assert_int_equal(b.size, strlen(normal) + 1);
    assert_memory_equal(b.data + 1, normal, strlen(normal));
    buf_fini(&b);
}

static void
assert_bad(const char *text, const char *sentence)
{
    struct problem why = {""};
    struct buf b;

    buf_init(&b, 1000);
    assert_int_equal(hash_normalise(&b, slice_of(text), &why), STATUS_INVALID);
    assert_string_equal(why.text, sentence);
    assert_int_equal(b.size, 0);
    buf_fini(&b);
}

/* R-017, I-04 */
TEST(normalises_lists_of_hashes)
{
    assert_normal("md5:" MD5, "md5:" MD5);
    assert_normal("\n sha-256:" SHA256 "\t\r\n md5:" MD5 " sha1:" SHA1 " ",
                  "sha-256:" SHA256 " md5:" MD5 " sha-1:" SHA1);
    assert_normal("sha256:" SHA256, "sha-256:" SHA256);
    assert_normal("md5:D41D8CD98F00B204E9800998ECF8427E",
                  "md5:D41D8CD98F00B204E9800998ECF8427E");
}

#define KNOWN "; md5, sha-1 and sha-256 are known, such as " HASH_EXAMPLE

/* */
TEST(refuses_hashes_that_are_none)
{
    assert_bad("", "hash: empty; such as md5:d41d8cd98f00b204e9800998ecf8427e");
    assert_bad(" \n",
               "hash: empty; such as md5:d41d8cd98f00b204e9800998ecf8427e");
    assert_bad(MD5, "hash: not \"algorithm:digest\", such as " HASH_EXAMPLE
                    ": \"" MD5 "\"");
    assert_bad("md4:" MD5, "hash: unknown algorithm \"md4\"" KNOWN);
    assert_bad("MD5:" MD5, "hash: unknown algorithm \"MD5\"" KNOWN);
    assert_bad("md5:" SHA1, "hash: md5 has 32 digits, not 40");
    assert_bad("md5:", "hash: md5 has 32 digits, not 0");
    assert_bad("sha1:" SHA1 " sha-1:" SHA1, "hash: sha-1 is given twice");
    assert_bad("md5:" MD5 " md5:" MD5, "hash: md5 is given twice");
    assert_bad("md5:g41d8cd98f00b204e9800998ecf8427e",
               "hash: not hexadecimal: \"g41d8cd98f00b204e9800998ecf8427e\"");
}

/* every byte, in every place of the eight that are looked at at once. */
TEST(knows_hexadecimal_digits)
{
    for (int c = '!'; c < 256; c++)
        for (size_t i = 0; i < 8; i++) {
            char text[] = "md5:" MD5;
            struct buf b;
            bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
                            (c >= 'A' && c <= 'F');

            text[4 + i] = (char)c;
            buf_init(&b, 100);
            if (!hash_normalise(&b, slice_of(text), NULL) != is_digit)
                fail_msg("byte %d at %zu", c, i);
            buf_fini(&b);
        }
}

TEST(walks_a_list)
{
    struct slice list = SLICE("md5:ab sha-1:cd");
    struct slice algorithm;
    struct slice digits;

    assert_true(hash_next(&list, &algorithm, &digits));
    assert_true(slice_is(algorithm, "md5") && slice_is(digits, "ab"));
    assert_true(hash_next(&list, &algorithm, &digits));
    assert_true(slice_is(algorithm, "sha-1") && slice_is(digits, "cd"));
    assert_false(hash_next(&list, &algorithm, &digits));
}

/* d(0) = SHA-256(epoch), d(n) = SHA-256(d(n-1) || fragment n). */
TEST(chains_digests)
{
    char text[DIGEST_TEXT_SIZE];
    struct digest d;
    struct digest same;

    digest_sha256(&d, (struct slice){NULL, 0});
    digest_write(text, &d);
    assert_memory_equal(text, "sha-256:" SHA256, DIGEST_TEXT_SIZE);

    digest_sha256(&d, SLICE("0123456789abcdef"));
    digest_add(&d, SLICE("<url>"));
    digest_write(text, &d);
    assert_memory_equal(text,
                        "sha-256:9cac1e82e2cd37d1f88e113d84279bec"
                        "141c64a4d0436dcab2066824e3216a35",
                        DIGEST_TEXT_SIZE);

    assert_int_equal(digest_read((struct slice){text, DIGEST_TEXT_SIZE}, &same),
                     0);
    assert_memory_equal(&d, &same, sizeof(d));
    assert_int_equal(
        digest_read((struct slice){text, DIGEST_TEXT_SIZE - 1}, &same),
        STATUS_INVALID);
    text[20] = 'g';
    assert_int_equal(digest_read((struct slice){text, DIGEST_TEXT_SIZE}, &same),
                     STATUS_INVALID);
}

/* digest_add hashes the former digest and the entry, of any size. */
TEST(adds_entries_of_every_size)
{
    char text[DIGEST_SIZE + 2200];

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 7);
    for (size_t size = 0; size <= 2200; size++) {
        struct digest whole, added;

        memcpy(added.bytes, text, DIGEST_SIZE);
        digest_add(&added, (struct slice){text + DIGEST_SIZE, size});
        digest_sha256(&whole, (struct slice){text, DIGEST_SIZE + size});
        assert_memory_equal(&added, &whole, sizeof(whole));
    }
}

/* Two lists agree in what both have; digits in either case. */
TEST(compares_lists_by_what_both_have)
{
    static const struct {
        const char *a, *b;
        bool agree, has_common;
    } rows[] = {
        {"md5:01ab", "md5:01AB", true, true},
        {"md5:01ab", "md5:01ac", false, true},
        {"md5:01ab sha-1:02", "sha-1:02 sha-256:03", true, true},
        {"md5:01ab sha-1:02", "md5:01ab sha-1:03", false, true},
        {"md5:01ab", "sha-1:01ab", true, false},
        {"", "md5:01ab", true, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool has_common;

        assert_int_equal(
            hashes_agree(slice_of(rows[i].a), slice_of(rows[i].b), &has_common),
            rows[i].agree);
        assert_int_equal(has_common, rows[i].has_common);
    }
}
