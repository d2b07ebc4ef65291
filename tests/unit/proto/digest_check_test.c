#include "proto/resourcesync/digest.h"
#include "tests/test.h"

/* Of "hello". */
#define MD5  "5d41402abc4b2a76b9719d911017c592"
#define SHA1 "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"
#define SHA256 \
    "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

static enum status
look(struct slice hash, uint64_t length, const char *bytes, struct problem *why)
{
    struct digest_check *d = digest_check_new(hash, length, false);
    enum status rc;

    assert_non_null(d);
    rc = digest_check_add(d, slice_of(bytes), why);
    if (!rc)
        rc = digest_check_end(d, why);
    digest_check_free(d);
    return rc;
}

/* every known digest counts, in any case. */
TEST(all_digests_that_were_told_are_looked_at)
{
    struct problem why = {.text = ""};

    assert_int_equal(look(SLICE("md5:" MD5 " sha-1:" SHA1 " sha-256:" SHA256),
                          5, "hello", &why),
                     STATUS_OK);
    assert_int_equal(look(SLICE("md5:5D41402ABC4B2A76B9719D911017C592"),
                          LENGTH_NONE, "hello", &why),
                     STATUS_OK);

    assert_int_equal(look(SLICE("sha-256:" SHA256), LENGTH_NONE, "hullo", &why),
                     STATUS_INVALID);
    assert_int_equal(
        look(SLICE("sha-256:" SHA256 " md5:00000000000000000000000000000000"),
             LENGTH_NONE, "hello", &why),
        STATUS_INVALID);
    assert_string_equal(
        why.text, "md5 is " MD5
                  ", the source announced 00000000000000000000000000000000");
}

TEST(digests_that_nobody_knows_are_passed_over)
{
    struct problem why = {.text = ""};
    struct digest_check *d =
        digest_check_new(SLICE("sha-512:00 crc:17 md5:17"), LENGTH_NONE, false);

    assert_false(digest_check_has_any(d));
    assert_int_equal(digest_check_add(d, SLICE("hello"), &why), STATUS_OK);
    assert_int_equal(digest_check_end(d, &why), STATUS_OK);
    digest_check_free(d);
}

/* the first byte too many is an error. */
TEST(the_length_is_looked_at)
{
    struct problem why = {.text = ""};
    struct slice none = {NULL, 0};

    assert_int_equal(look(none, 5, "hello", &why), STATUS_OK);
    assert_int_equal(look(none, 4, "hello", &why), STATUS_INVALID);
    assert_string_equal(why.text,
                        "is longer than the 4 bytes that the source announced");
    assert_int_equal(look(none, 6, "hello", &why), STATUS_INVALID);
    assert_string_equal(why.text, "has 5 bytes, the source announced 6");
    assert_int_equal(look(none, 0, "", &why), STATUS_OK);
}

/* A user that names files by SHA-256 gets it for all bytes. */
TEST(sha_256_is_computed_where_it_is_wanted)
{
    static const struct slice hashes[] = {
        SLICE(""), SLICE("md5:" MD5), SLICE("sha-256:" SHA256 " sha-1:" SHA1)};
    char text[DIGEST_TEXT_SIZE];
    struct problem why = {.text = ""};
    struct digest sha256;

    for (size_t i = 0; i < sizeof(hashes) / sizeof(hashes[0]); i++) {
        struct digest_check *d = digest_check_new(hashes[i], LENGTH_NONE, true);

        assert_true(digest_check_has_any(d) == (hashes[i].size > 0));
        assert_int_equal(digest_check_add(d, SLICE("hel"), &why), STATUS_OK);
        assert_int_equal(digest_check_add(d, SLICE("lo"), &why), STATUS_OK);
        assert_int_equal(digest_check_end(d, &why), STATUS_OK);
        digest_check_sha256(d, &sha256);
        digest_write(text, &sha256);
        assert_memory_equal(text, "sha-256:" SHA256, sizeof(text));
        digest_check_free(d);
    }
}
