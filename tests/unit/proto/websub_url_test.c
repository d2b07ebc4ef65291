#include <stdio.h>

#include "proto/http/websub.h"
#include "tests/test.h"

static void
assert_slice(struct slice s, const char *text)
{
    if (!slice_is(s, text))
        fail_msg("\"%.*s\" is not \"%s\"", SLICE_ARG(s), text);
}

/* Checking */

/* W-027 */
TEST(takes_urls_of_http_and_https)
{
    static const char *const good[] = {
        "http://a.example",
        "https://a.example/",
        "HTTP://A.Example/x",
        "http://a.example?x=1",
        "http://a.example:8080/",
        "http://a.example:/",
        "http://a.example:1/",
        "http://a.example:65535",
        "http://localhost/",
        "http://a_b-c.example/",
        "http://xn--bcher-kva.example/",
        "http://127.0.0.1:80/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::1]/",
        "http://[2001:DB8::1]:8080/x",
        "http://[::ffff:127.0.0.1]",
        "http://a.example/%0d%0a%00%zz%",
        "http://a.example/?q=a@b:c//d?e&f[]=1",
        "http://a.example/@:80",
        "http://a.example/a/../b/./c;d=e,f'g(h)!*$|{}^`~",
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct problem why = {""};

        if (websub_check_url(slice_of(good[i]), "hub.topic", &why))
            fail_msg("%s: %s", good[i], why.text);
    }
}

static void
assert_no_url(struct slice url, const char *reason)
{
    struct problem why = {""};

    if (websub_check_url(url, "cb", &why) != STATUS_MALFORMED)
        fail_msg("accepted: \"%.*s\"", SLICE_ARG(url));
    if (reason)
        assert_string_equal(why.text, reason);
    assert_true(why.text[0]);
}

/* W-027 */
TEST(refuses_other_schemes_and_relative_urls)
{
    static const char *const rows[][2] = {
        {"", "cb: empty"},
        {"/cb",
         "cb: not an absolute URI, such as http://example.com/a: \"/cb\""},
        {"//b.example/cb", "cb: not an absolute URI, such as "
                           "http://example.com/a: \"//b.example/cb\""},
        {"b.example/cb", "cb: not an absolute URI, such as "
                         "http://example.com/a: \"b.example/cb\""},
        {"http:",
         "cb: not an absolute URI, such as http://example.com/a: \"http:\""},
        {"http:/b.example/", "cb: no host in \"http:/b.example/\""},
        {"http:b.example/", "cb: no host in \"http:b.example/\""},
        {"b.example:80/cb", "cb: neither http nor https: \"b.example:80/cb\""},
        {"ftp://b.example/",
         "cb: neither http nor https: \"ftp://b.example/\""},
        {"httpx://b.example/",
         "cb: neither http nor https: \"httpx://b.example/\""},
        {"htt://b.example/",
         "cb: neither http nor https: \"htt://b.example/\""},
        {"file:///etc/hosts",
         "cb: neither http nor https: \"file:///etc/hosts\""},
        {"javascript:alert(1)",
         "cb: neither http nor https: \"javascript:alert(1)\""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_no_url(slice_of(rows[i][0]), rows[i][1]);
}

/* W-027, W-163: not even where they would be cut off. */
TEST(refuses_every_control_character_and_blank)
{
    static const char parts[][2][24] = {
        {"", "http://b.example/"},    {"http://b.exa", "mple/"},
        {"http://b.example:8", "0/"}, {"http://b.example/", "x"},
        {"http://b.example/?", "x"},  {"http://b.example/", ""},
    };

    for (int c = 0; c <= 0x7f; c = c == 0x20 ? 0x7f : c + 1)
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            char url[64];
            int size =
                snprintf(url, sizeof(url), "%s?%s", parts[i][0], parts[i][1]);

            url[strlen(parts[i][0])] = (char)c;
            assert_no_url((struct slice){url, (size_t)size}, NULL);
        }
    assert_no_url(SLICE("http://b.example/ HTTP/1.1\r\nX: y"),
                  "cb: white space, a control character or invalid UTF-8 in "
                  "\"http://b.example/ HTTP/1.1??X: y\"");
    assert_no_url(SLICE("http://b.example/\xc2\x85"), NULL);
}

/* W-163: it would end the target in a Link header, or is a slash to some. */
TEST(refuses_what_ends_a_url_elsewhere)
{
    assert_no_url(SLICE("http://b.example/>;rel=self"),
                  "cb: '>' has to be written as %3E: "
                  "\"http://b.example/>;rel=self\"");
    assert_no_url(SLICE("http://b.example/<"), NULL);
    assert_no_url(SLICE("http://b.example/\"x"), NULL);
    assert_no_url(SLICE("http://b.example\\@127.0.0.1/"),
                  "cb: '\\' has to be written as %5C: "
                  "\"http://*@127.0.0.1/\"");
    assert_no_url(SLICE("http:\\\\b.example/"), NULL);
}

/* W-027 */
TEST(refuses_user_info)
{
    static const char *const bad[] = {
        "http://user@b.example/",
        "http://user:word@b.example/",
        "http://@b.example/",
        "http://:@b.example/",
        "http://a.example@b.example",
        "http://a.example:80@b.example?x",
        "http://u@[::1]/",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_no_url(slice_of(bad[i]),
                      "cb: user info (what stands before \"@\") is not allowed "
                      "in a URL");
}

/* W-027 */
TEST(refuses_ports_that_are_none)
{
    static const char *const bad[] = {
        "0",    "00",    "65536", "99999999999999999999999",
        "-1",   "+80",   "80a",   "x",
        "0x50", "80:80", "%38"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char url[100], reason[100];

        snprintf(url, sizeof(url), "http://b.example:%s/", bad[i]);
        snprintf(reason, sizeof(reason), "cb: no port from 1 to 65535: \"%s\"",
                 bad[i]);
        assert_no_url(slice_of(url), reason);
    }
    assert_no_url(SLICE("http://[::1]:0/"),
                  "cb: no port from 1 to 65535: \"0\"");
}

/* W-027, W-160: text that one reader takes for a name, and another decodes
 * first, or completes, is no host. */
TEST(refuses_hosts_that_are_none)
{
    static const char *const rows[][2] = {
        {"http:///x", "cb: no host in \"http:///x\""},
        {"http://?x", "cb: no host in \"http://?x\""},
        {"http://:80/", "cb: no host in \"http://:80/\""},
        {"http://./", "cb: no valid host: \".\""},
        {"http://.b.example/", "cb: no valid host: \".b.example\""},
        {"http://b..example/", "cb: no valid host: \"b..example\""},
        {"http://b.example./", "cb: no valid host: \"b.example.\""},
        {"http://b.ex%61mple/", "cb: no valid host: \"b.ex%61mple\""},
        {"http://%31%32%37.1/", "cb: no valid host: \"%31%32%37.1\""},
        {"http://b,example/", "cb: no valid host: \"b,example\""},
        {"http://b.example;x/", "cb: no valid host: \"b.example;x\""},
        {"http://*/", "cb: no valid host: \"*\""},
        {"http://~b/", "cb: no valid host: \"~b\""},
        {"http://[]/", "cb: no valid host: \"[]\""},
        {"http://[::1", "cb: no valid host: \"[::1\""},
        {"http://[::1/", "cb: no valid host: \"[::1\""},
        {"http://[::1]x/", "cb: no valid host: \"[::1]x\""},
        {"http://[::1]80/", "cb: no valid host: \"[::1]80\""},
        {"http://::1/", NULL},
        {"http://a::1/", "cb: no port from 1 to 65535: \":1\""},
        {"http://[b.example]/", "cb: no valid host: \"[b.example]\""},
        {"http://[127.0.0.1]/", "cb: no valid host: \"[127.0.0.1]\""},
        {"http://[fe80::1%25eth0]/", "cb: no valid host: \"[fe80::1%25eth0]\""},
        {"http://[v1.x]/", "cb: no valid host: \"[v1.x]\""},
        {"http://[::1::]/", "cb: no valid host: \"[::1::]\""},
        {"http://[1:2:3:4:5:6:7:8:9]/", NULL},
        {"http://[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]/",
         NULL},
    };
    char url[400] = "http://";

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_no_url(slice_of(rows[i][0]), rows[i][1]);

    memset(url + 7, 'a', 253);
    assert_int_equal(websub_check_url(slice_of(url), "cb", NULL), 0);
    url[7 + 253] = 'a';
    assert_no_url(slice_of(url), NULL);
}

/* W-027: a library must not decide which name it asks for. */
TEST(asks_for_ascii)
{
    assert_no_url(SLICE("http://b\xc3\xbc"
                        "cher.example/"),
                  "cb: a host beyond ASCII has to be written in its \"xn--\" "
                  "form: \"b\xc3\xbc"
                  "cher.example\"");
    assert_no_url(SLICE("http://b.example\xef\xbc\x8f/"), NULL);
    assert_no_url(SLICE("http://b.example/\xc3\xa5"),
                  "cb: characters beyond ASCII have to be written as escapes: "
                  "\"http://b.example/\xc3\xa5\"");
    assert_no_url(SLICE("http://b.example/?\xff"), NULL);
}

/* W-034: two callbacks that no server can distinguish. */
TEST(refuses_fragments)
{
    assert_no_url(SLICE("http://b.example/#x"),
                  "cb: a fragment, which no server sees, is not allowed: "
                  "\"http://b.example/#x\"");
    assert_no_url(SLICE("http://b.example/?x#"), NULL);
    assert_no_url(SLICE("http://b.example#@c.example/"), NULL);
    assert_int_equal(
        websub_check_url(SLICE("http://b.example/%23x"), "cb", NULL), 0);
}

/* W-165 */
TEST(takes_urls_up_to_a_limit)
{
    char url[WEBSUB_URL_MAX + 1] = "http://b.example/";
    size_t size = strlen(url);

    memset(url + size, 'x', sizeof(url) - size);
    assert_int_equal(
        websub_check_url((struct slice){url, WEBSUB_URL_MAX}, "cb", NULL), 0);
    assert_no_url((struct slice){url, WEBSUB_URL_MAX + 1},
                  "cb: longer than 2048 bytes");
}

/* Comparing */

static void
assert_comparable(const char *url, const char *comparable)
{
    struct websub_comparable c, again;

    assert_int_equal(websub_check_url(slice_of(url), "url", NULL), 0);
    assert_string_equal(websub_comparable(&c, slice_of(url)), comparable);
    assert_int_equal(c.size, strlen(comparable));
    websub_comparable(&again, slice_of(c.text));
    assert_string_equal(again.text, comparable);
}

/* W-026, RFC 3986 section 6.2.2 */
TEST(what_means_the_same_compares_equal)
{
    static const char *const rows[][2] = {
        {"HTTP://A.Example/Path?Query", "http://a.example/Path?Query"},
        {"http://a.example", "http://a.example/"},
        {"http://a.example?x", "http://a.example/?x"},
        {"http://a.example/", "http://a.example/"},
        {"http://a.example:80/x", "http://a.example/x"},
        {"http://a.example:0080/x", "http://a.example/x"},
        {"http://a.example:/x", "http://a.example/x"},
        {"HTTPS://a.example:443", "https://a.example/"},
        {"http://a.example:443/", "http://a.example:443/"},
        {"https://a.example:80/", "https://a.example:80/"},
        {"http://a.example:08080/", "http://a.example:8080/"},
        {"http://[2001:DB8::A]:80/", "http://[2001:db8::a]/"},
        {"http://a.example/%7Eu/%41%2d%2E%5f%30", "http://a.example/~u/A-._0"},
        {"http://a.example/?q=%7e", "http://a.example/?q=~"},
        {"http://a.example/%2f%3a?%26", "http://a.example/%2F%3A?%26"},
        {"http://a.example/%c3%a5", "http://a.example/%C3%A5"},
        {"http://a.example/%2541", "http://a.example/%2541"},
        {"http://a.example/100%", "http://a.example/100%25"},
        {"http://a.example/%%34%31", "http://a.example/%2541"},
        {"http://a.example/%4", "http://a.example/%254"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_comparable(rows[i][0], rows[i][1]);
}

/* W-034 */
TEST(what_may_differ_to_a_server_does_not_compare_equal)
{
    static const char *const urls[] = {
        "http://a.example/x",     "http://a.example/x/",
        "http://a.example/X",     "http://a.example/x?",
        "http://a.example/x?a",   "http://a.example/x?a=",
        "http://a.example/x?a+b", "http://a.example/x?a%20b",
        "https://a.example/x",    "http://a.example:81/x",
        "http://a.example/%2fx",
    };
    const size_t n = sizeof(urls) / sizeof(urls[0]);

    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            if (websub_is_same(slice_of(urls[i]), slice_of(urls[k])))
                fail_msg("%s and %s", urls[i], urls[k]);
}

/* W-161, W-164: another spelling of an address gives no limit of its own.
 */
TEST(an_authority_is_the_same_however_it_is_spelled)
{
    static const char *const rows[][2] = {
        {"http://A.Example/x", "a.example:80"},
        {"https://a.example", "a.example:443"},
        {"http://a.example:?x", "a.example:80"},
        {"http://a.example:08080/", "a.example:8080"},
        {"http://127.0.0.1/", "127.0.0.1:80"},
        {"http://2130706433/", "127.0.0.1:80"},
        {"http://0x7F.1:9/", "127.0.0.1:9"},
        {"http://0177.0.0.01/", "127.0.0.1:80"},
        {"http://127.0.0.1.example/", "127.0.0.1.example:80"},
        {"http://[::1]:8080/", "[::1]:8080"},
        {"https://[0:0::0001]/", "[::1]:443"},
        {"https://[2001:DB8:0:0:0:0:0:A]/", "[2001:db8::a]:443"},
        {"http://[::ffff:127.0.0.1]/", "127.0.0.1:80"},
        {"http://[::FFFF:7f00:1]:9/", "127.0.0.1:9"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b;

        buf_init(&b, 300);
        assert_int_equal(websub_check_url(slice_of(rows[i][0]), "url", NULL),
                         0);
        websub_authority(&b, slice_of(rows[i][0]));
        assert_slice(buf_slice(&b), rows[i][1]);
        buf_clear(&b);
        websub_host(&b, slice_of(rows[i][0]));
        assert_memory_equal(b.data, rows[i][1], b.size);
        assert_int_equal(rows[i][1][b.size], ':');
        buf_fini(&b);
    }
}

/* W-029: nothing behind the host and port is shown. */
TEST(an_origin_has_no_path)
{
    static const char *const rows[][2] = {
        {"http://A.example/secret?secret", "http://a.example"},
        {"HTTPS://a.example:443?secret", "https://a.example"},
        {"http://a.example:08080", "http://a.example:8080"},
        {"https://[2001:DB8::A]:80/secret", "https://[2001:db8::a]:80"},
    };
    char longest[600] = "https://", expected[600] = "";

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(websub_origin(slice_of(rows[i][0])).text,
                            rows[i][1]);
    for (size_t i = 0; i < 253; i++)
        strcat(longest, i % 64 == 63 ? "." : "a");
    strcat(longest, ":65535");
    strcpy(expected, longest);
    strcat(longest, "/secret");
    assert_int_equal(websub_check_url(slice_of(longest), "url", NULL), 0);
    assert_string_equal(websub_origin(slice_of(longest)).text, expected);
}
