#include <string.h>

#include "proto/http/webhook_signature.h"
#include "proto/number.h"
#include "tests/test.h"

/* W-109: the first two vectors of RFC 8032, section 7.1. */
TEST(signs_as_ed25519_does)
{
    static const struct {
        const char *secret, *public, *message, *signature;
    } rows[] = {
        {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
         "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
         "v1a,5VZDAMNgrHKQhuLMgG6CioSHfx645dl02HPgZSJJAVVfuIIVkKM7rMYeOXAc+bRr"
         "0lv18FlbviRlUUFDjnoQCw=="},
        {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
         "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
         "\x72",
         "v1a,kqAJqfDUyrhyDoILX2QlQKKye1QWUD+Ps3YiI+vbadoIWsHkPhWZbkWPNhPQ8R2M"
         "OHsurrQwKu6wDSkWErsMAA=="},
    };

    unsigned char secret[SIGNING_KEY_SIZE];
    char public[2 * SIGNING_KEY_SIZE + 1], text[WEBHOOK_KEY_SIGNATURE_SIZE];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct signing_key *key;

        for (size_t k = 0; k < SIGNING_KEY_SIZE; k++)
            secret[k] = (unsigned char)(hex_value(rows[i].secret[2 * k]) << 4 |
                                        hex_value(rows[i].secret[2 * k + 1]));
        key = signing_key_new(secret);
        *hex_write(public, signing_key_public(key), SIGNING_KEY_SIZE) = '\0';
        assert_string_equal(public, rows[i].public);
        assert_int_equal(webhook_sign(key, slice_of(rows[i].message), text),
                         STATUS_OK);
        assert_string_equal(text, rows[i].signature);
        signing_key_free(key);
    }
}

TEST(no_two_keys_are_the_same)
{
    unsigned char a[SIGNING_KEY_SIZE], b[SIGNING_KEY_SIZE];

    assert_true(signing_key_make(a));
    assert_true(signing_key_make(b));
    assert_memory_not_equal(a, b, sizeof(a));
}

TEST(reads_a_secret_as_text)
{
    static const char *const none[] = {
        "",
        "AAAA",
        "no key",
        "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
        "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2AA",
        "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=nWGxne/9WmC6hEr0"};

    char text[SIGNING_KEY_TEXT], public[2 * SIGNING_KEY_SIZE + 1];
    struct signing_key *key = NULL;

    assert_int_equal(
        signing_key_read(
            &key, SLICE("nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="), NULL),
        STATUS_OK);
    *hex_write(public, signing_key_public(key), SIGNING_KEY_SIZE) = '\0';
    assert_string_equal(
        public,
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    signing_key_free(key);

    assert_true(signing_key_make_text(text));
    assert_int_equal(signing_key_read(&key, slice_of(text), NULL), STATUS_OK);
    signing_key_free(key);
    for (size_t i = 0; i < N_ELEMENTS(none); i++)
        assert_int_equal(signing_key_read(&key, slice_of(none[i]), NULL),
                         STATUS_INVALID);
}
