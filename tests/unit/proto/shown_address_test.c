#include "proto/shown_address.h"

#include "proto/problem.h"
#include "tests/test.h"

TEST(hides_what_may_be_secret_in_addresses)
{
    static const struct {
        const char *text, *shown; /* NULL: as it is */
    } rows[] = {
        {"", NULL},
        {"https://example.org/feed?page=2&lang=en#part", NULL},
        {"https://example.org:8443/a@b?mail=ann@example.org", NULL},
        {"https://example.org/?key=", NULL},
        {"https://example.org/?key", NULL},
        {"https://example.org/key=7/token/7", NULL},
        {"a key=7 of nobody, and ann@example.org", NULL},
        {"https://ann:pw@example.org/", "https://*@example.org/"},
        {"https://token@example.org/", "https://*@example.org/"},
        {"https://:pw@[::1]:80/a", "https://*@[::1]:80/a"},
        {"https://ann:p@w:@example.org", "https://*@example.org"},
        {"HTTPS://ann:pw@example.org?x", "HTTPS://*@example.org?x"},
        {"https://example.org/feed?key=7f3a", "https://example.org/feed?key=*"},
        {"https://e.org/?a=1&token=7&b=2", "https://e.org/?a=1&token=*&b=2"},
        {"https://e.org/?a=1;Token=7;b=2", "https://e.org/?a=1;Token=*;b=2"},
        {"https://e.org/#access_token=7&b=2",
         "https://e.org/#access_token=*&b=2"},
        {"https://e.org?api_key=7", "https://e.org?api_key=*"},
        {"https://e.org/?apikey=a=b==&c=1", "https://e.org/?apikey=*&c=1"},
        {"https://e.org/?X-Api-Key=7", "https://e.org/?X-Api-Key=*"},
        {"https://e.org/?sv=1&sig=a%2Fb%3D", "https://e.org/?sv=1&sig=*"},
        {"https://e.org/?X-Amz-Signature=7&X-Amz-Credential=A/b",
         "https://e.org/?X-Amz-Signature=*&X-Amz-Credential=*"},
        {"https://e.org/?X-Amz-Security-Token=7",
         "https://e.org/?X-Amz-Security-Token=*"},
        {"https://e.org/?client_secret=7", "https://e.org/?client_secret=*"},
        {"https://e.org/?password=p/w?d&pwd=1&pass=2&passwd=3",
         "https://e.org/?password=*&pwd=*&pass=*&passwd=*"},
        {"https://e.org/?auth=1&authorization=2&session=3&sid=4&jwt=5&hmac=6",
         "https://e.org/?auth=*&authorization=*&session=*&sid=*&jwt=*&hmac=*"},
        {"https://e.org/?key=7: 404", "https://e.org/?key=*: 404"},
        {"(https://e.org/?key=7).", "(https://e.org/?key=*)."},
        {"\"https://e.org/?key=7...\" is none",
         "\"https://e.org/?key=*...\" is none"},
        {"<https://u:p@e.org/?key=7>; rel=x",
         "<https://*@e.org/?key=*>; rel=x"},
        {"https://u:p@e.org/ and https://e.org/?key=7&a=1, or ftp://u@e.org",
         "https://*@e.org/ and https://e.org/?key=*&a=1, or ftp://*@e.org"},
        {"https://e.org/?to=https://u:p@f.org/?key=7",
         "https://e.org/?to=https://*@f.org/?key=*"},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        const char *expected = rows[i].shown ? rows[i].shown : rows[i].text;
        struct problem why = {""};
        char text[300];

        snprintf(text, sizeof(text), "%s", rows[i].text);
        assert_string_equal(shown_address(text), expected);
        assert_string_equal(shown_address(text), expected);
        problem_set(&why, "%s", rows[i].text);
        assert_string_equal(why.text, expected);
    }
    assert_null(shown_address(NULL));
}
