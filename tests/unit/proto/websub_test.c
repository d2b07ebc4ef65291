#include "proto/websub.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define TOPIC    "hub.topic=http://a.example/topic"
#define CALLBACK "hub.callback=http://b.example/cb"
#define BOTH     "&" TOPIC "&" CALLBACK

static void
assert_slice(struct slice s, const char *text)
{
    if (!slice_is(s, text))
        fail_msg("\"%.*s\" is not \"%s\"", SLICE_ARG(s), text);
}

/* What is read lends from `form`, to be ended with form_fini. */
static struct websub_request
accepted(struct form_data *form, const char *body)
{
    struct websub_request request;
    struct problem why = {""};

    assert_int_equal(form_read(form, slice_of(body), NULL), 0);
    if (websub_read(form, &request, &why))
        fail_msg("%s: %s", body, why.text);
    return request;
}

static void
assert_accepted(const char *body)
{
    struct form_data form;

    (void)accepted(&form, body);
    form_fini(&form);
}

static void
assert_status(const char *body, enum status status, const char *reason)
{
    struct websub_request request;
    struct problem why = {""};
    struct form_data form;

    assert_int_equal(form_read(&form, slice_of(body), NULL), 0);
    if (websub_read(&form, &request, &why) != status)
        fail_msg("%s: %s", body, why.text);
    assert_string_equal(why.text, reason);
    form_fini(&form);
}

static void
assert_refused(const char *body, const char *reason)
{
    assert_status(body, STATUS_MALFORMED, reason);
}

/* Requests */

/* W-021 */
static void
reads_a_subscription(void **state)
{
    struct form_data form;
    struct websub_request request;

    (void)state;
    request = accepted(&form, "hub.mode=subscribe" BOTH
                              "&hub.secret=a+b%2B&hub.lease_seconds=864000");

    assert_int_equal(request.mode, WEBSUB_SUBSCRIBE);
    assert_slice(request.topic, "http://a.example/topic");
    assert_slice(request.callback, "http://b.example/cb");
    assert_slice(request.secret, "a b+");
    assert_int_equal(request.lease_s, 864000);
    form_fini(&form);
}

/* W-021 */
static void
needs_mode_topic_and_callback(void **state)
{
    (void)state;
    assert_refused("", "hub.mode: missing or empty");
    assert_refused(TOPIC "&" CALLBACK, "hub.mode: missing or empty");
    assert_refused("hub.mode=" BOTH, "hub.mode: missing or empty");
    assert_refused("hub.mode=subscribe&" CALLBACK,
                   "hub.topic: missing or empty");
    assert_refused("hub.mode=subscribe&hub.topic&" CALLBACK,
                   "hub.topic: missing or empty");
    assert_refused("hub.mode=unsubscribe&" TOPIC,
                   "hub.callback: missing or empty");
    assert_refused("hub.mode=unsubscribe&hub.callback=&" TOPIC,
                   "hub.callback: missing or empty");
}

/* W-022 */
static void
knows_three_modes_in_one_case(void **state)
{
    static const char *const others[] = {"PUBLISH", "Subscribe", "denied",
                                         "subscribe ", "sub"};
    struct form_data form;

    (void)state;
    assert_int_equal(accepted(&form, "hub.mode=unsubscribe" BOTH).mode,
                     WEBSUB_UNSUBSCRIBE);
    form_fini(&form);
    assert_int_equal(accepted(&form, "hub.mode=publish&" TOPIC).mode,
                     WEBSUB_PUBLISH);
    form_fini(&form);

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char body[200], reason[200];

        snprintf(body, sizeof(body), "hub.mode=%s" BOTH, others[i]);
        snprintf(reason, sizeof(reason),
                 "hub.mode: neither \"subscribe\" nor \"unsubscribe\" nor "
                 "\"publish\": \"%s\"",
                 others[i]);
        assert_refused(body, reason);
    }
}

/* Which of the two was meant cannot be known; the same twice harms nobody. */
static void
refuses_a_parameter_with_two_values(void **state)
{
    (void)state;
    assert_accepted("hub.mode=subscribe&hub.mode=subscribe" BOTH BOTH
                    "&hub.secret=a&hub.secret=a");
    assert_refused("hub.mode=subscribe&hub.mode=unsubscribe" BOTH,
                   "hub.mode: there twice, with different values");
    assert_refused("hub.mode=subscribe" BOTH "&hub.topic=http://c.example/",
                   "hub.topic: there twice, with different values");
    assert_refused("hub.mode=subscribe" BOTH "&hub.callback=",
                   "hub.callback: there twice, with different values");
    assert_refused("hub.mode=subscribe&hub.secret=&hub.secret=a" BOTH,
                   "hub.secret: there twice, with different values");
    assert_refused("hub.mode=subscribe" BOTH
                   "&hub.lease_seconds=5&hub.lease_seconds=6",
                   "hub.lease_seconds: there twice, with different values");
}

/* W-023: bytes as they are decoded, not characters, not escapes. */
static void
takes_secrets_below_200_bytes(void **state)
{
    static const char piece[] = "%C3%A5";
    char body[2000] = "hub.mode=subscribe" BOTH "&hub.secret=a";
    size_t size = strlen(body);
    struct form_data form;

    (void)state;
    for (size_t i = 0; i < 99; i++, size += sizeof(piece) - 1)
        memcpy(body + size, piece, sizeof(piece));
    assert_int_equal(accepted(&form, body).secret.size, 199);
    form_fini(&form);

    strcpy(body + size, "a");
    assert_status(body, STATUS_INVALID,
                  "hub.secret: 200 bytes long; at most 199 are allowed");
}

/* W-037 */
static void
an_empty_secret_is_none(void **state)
{
    struct form_data form;

    (void)state;
    assert_int_equal(
        accepted(&form, "hub.mode=subscribe" BOTH "&hub.secret=").secret.size,
        0);
    form_fini(&form);
    assert_int_equal(accepted(&form, "hub.mode=subscribe" BOTH).secret.size, 0);
    form_fini(&form);
}

/* W-024 */
static void
takes_leases_of_every_length(void **state)
{
    static const struct {
        const char *text;
        uint64_t lease_s;
    } rows[] = {
        {"", 0},
        {"1", 1},
        {"007", 7},
        {"00000000000000000000000000300", 300},
        {"18446744073709551615", UINT64_MAX},
        {"18446744073709551616", UINT64_MAX},
        {"99999999999999999999999999999999999999", UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char body[200];
        struct form_data form;

        snprintf(body, sizeof(body),
                 "hub.mode=subscribe" BOTH "&hub.lease_seconds=%s",
                 rows[i].text);
        assert_true(accepted(&form, body).lease_s == rows[i].lease_s);
        form_fini(&form);
    }
}

/* W-024 */
static void
refuses_what_is_no_lease(void **state)
{
    static const char *const others[] = {"0",   "000", "-1",  "+1", "1.5",
                                         "1e3", "ten", "0x1", " 1", "1 "};

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct buf body;
        char reason[200];

        buf_init(&body, 1000);
        BUF_ADD(&body, "hub.mode=subscribe" BOTH);
        form_add(&body, "hub.lease_seconds", slice_of(others[i]));
        BUF_ADD(&body, "\0");
        snprintf(reason, sizeof(reason),
                 "hub.lease_seconds: not a positive number of seconds: \"%s\"",
                 others[i]);
        assert_refused(body.data, reason);
        buf_fini(&body);
    }
}

/* W-024 */
static void
an_unsubscription_may_name_any_lease(void **state)
{
    struct form_data form;

    (void)state;
    assert_int_equal(accepted(&form, "hub.mode=unsubscribe" BOTH
                                     "&hub.lease_seconds=-1"
                                     "&hub.lease_seconds=x")
                         .lease_s,
                     0);
    form_fini(&form);
    assert_int_equal(
        accepted(&form, "hub.mode=unsubscribe" BOTH "&hub.lease_seconds=300")
            .lease_s,
        0);
    form_fini(&form);
}

/* W-025 */
static void
leaves_unknown_parameters_alone(void **state)
{
    (void)state;
    assert_accepted("foo=1&hub.foo=2&hub.foo=3&foo=&hub.mode=subscribe" BOTH
                    "&hub.verify=sync&hub.verify=async&HUB.MODE=x&mode=y"
                    "&hub.url=nonsense");
}

/* W-026 */
static void
decodes_exactly_once(void **state)
{
    struct form_data form;
    struct websub_request request;

    (void)state;
    request = accepted(
        &form, "hub.mode=subscribe&hub.topic=http://a.example/%257Ex?a%3Db%2Bc"
               "&hub.callback=http://b.example/?a=1%26b=%2525%2B=%3D");

    assert_slice(request.topic, "http://a.example/%7Ex?a=b+c");
    assert_slice(request.callback, "http://b.example/?a=1&b=%25+==");
    form_fini(&form);
}

/* Publishing */

/* W-121 */
static void
a_publish_names_topics_by_both_names(void **state)
{
    struct slice topic;
    struct form_data form;
    struct websub_request request;
    size_t at = 0;

    (void)state;
    request =
        accepted(&form, "hub.url=http://a.example/1&hub.mode=publish&" TOPIC
                        "&hub.url=http://a.example/2&hub.urls=x"
                        "&hub.url=http://a.example/1");

    assert_int_equal(request.topic.size, 0);
    assert_true(websub_next_topic(&form, &at, &topic));
    assert_slice(topic, "http://a.example/1");
    assert_true(websub_next_topic(&form, &at, &topic));
    assert_slice(topic, "http://a.example/topic");
    assert_true(websub_next_topic(&form, &at, &topic));
    assert_slice(topic, "http://a.example/2");
    assert_true(websub_next_topic(&form, &at, &topic));
    assert_slice(topic, "http://a.example/1");
    assert_false(websub_next_topic(&form, &at, &topic));
    assert_false(websub_next_topic(&form, &at, &topic));
    form_fini(&form);
}

/* W-122, W-027 */
static void
a_publish_needs_a_url_and_urls_only(void **state)
{
    (void)state;
    assert_refused("hub.mode=publish",
                   "hub.url or hub.topic: missing; one of them names the topic "
                   "that has changed");
    assert_refused("hub.mode=publish&hub.url=", "hub.url or hub.topic: empty");
    assert_refused("hub.mode=publish&" TOPIC "&hub.url=ftp://a.example/",
                   "hub.url or hub.topic: neither http nor https: "
                   "\"ftp://a.example/\"");
}

/* URLs */

/* W-027 */
static void
takes_urls_of_http_and_https(void **state)
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

    (void)state;
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
static void
refuses_other_schemes_and_relative_urls(void **state)
{
    static const char *const rows[][2] = {
        {"", "cb: empty"},
        {"/cb", "cb: not an absolute URI: \"/cb\""},
        {"//b.example/cb", "cb: not an absolute URI: \"//b.example/cb\""},
        {"b.example/cb", "cb: not an absolute URI: \"b.example/cb\""},
        {"http:", "cb: not an absolute URI: \"http:\""},
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

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_no_url(slice_of(rows[i][0]), rows[i][1]);
}

/* W-027, W-163: not even where they would be cut off. */
static void
refuses_every_control_character_and_blank(void **state)
{
    static const char parts[][2][24] = {
        {"", "http://b.example/"},    {"http://b.exa", "mple/"},
        {"http://b.example:8", "0/"}, {"http://b.example/", "x"},
        {"http://b.example/?", "x"},  {"http://b.example/", ""},
    };

    (void)state;
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
static void
refuses_what_ends_a_url_elsewhere(void **state)
{
    (void)state;
    assert_no_url(SLICE("http://b.example/>;rel=self"),
                  "cb: '>' has to be written as %3E: "
                  "\"http://b.example/>;rel=self\"");
    assert_no_url(SLICE("http://b.example/<"), NULL);
    assert_no_url(SLICE("http://b.example/\"x"), NULL);
    assert_no_url(SLICE("http://b.example\\@127.0.0.1/"),
                  "cb: '\\' has to be written as %5C: "
                  "\"http://b.example\\@127.0.0.1/\"");
    assert_no_url(SLICE("http:\\\\b.example/"), NULL);
}

/* W-027 */
static void
refuses_user_info(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_no_url(slice_of(bad[i]),
                      "cb: user info (what stands before \"@\") is not allowed "
                      "in a URL");
}

/* W-027 */
static void
refuses_ports_that_are_none(void **state)
{
    static const char *const bad[] = {
        "0",    "00",    "65536", "99999999999999999999999",
        "-1",   "+80",   "80a",   "x",
        "0x50", "80:80", "%38"};

    (void)state;
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

/* W-027, W-160: what one reader takes for a name, and another decodes first, or
 * completes, is none. */
static void
refuses_hosts_that_are_none(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_no_url(slice_of(rows[i][0]), rows[i][1]);

    memset(url + 7, 'a', 253);
    assert_int_equal(websub_check_url(slice_of(url), "cb", NULL), 0);
    url[7 + 253] = 'a';
    assert_no_url(slice_of(url), NULL);
}

/* W-027: which name is asked for must not be left to a library. */
static void
asks_for_ascii(void **state)
{
    (void)state;
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

/* W-034: two callbacks that no server can tell apart. */
static void
refuses_fragments(void **state)
{
    (void)state;
    assert_no_url(SLICE("http://b.example/#x"),
                  "cb: a fragment, which no server sees, is not allowed: "
                  "\"http://b.example/#x\"");
    assert_no_url(SLICE("http://b.example/?x#"), NULL);
    assert_no_url(SLICE("http://b.example#@c.example/"), NULL);
    assert_int_equal(
        websub_check_url(SLICE("http://b.example/%23x"), "cb", NULL), 0);
}

/* W-165 */
static void
takes_urls_up_to_a_limit(void **state)
{
    char url[WEBSUB_URL_MAX + 1] = "http://b.example/";
    size_t size = strlen(url);

    (void)state;
    memset(url + size, 'x', sizeof(url) - size);
    assert_int_equal(
        websub_check_url((struct slice){url, WEBSUB_URL_MAX}, "cb", NULL), 0);
    assert_no_url((struct slice){url, WEBSUB_URL_MAX + 1},
                  "cb: longer than 2048 bytes");
}

/* W-027: it is the parameter's own name that the answer has. */
static void
says_which_url_is_none(void **state)
{
    (void)state;
    assert_refused("hub.mode=subscribe&hub.topic=/x&" CALLBACK,
                   "hub.topic: not an absolute URI: \"/x\"");
    assert_refused("hub.mode=unsubscribe&hub.callback=gopher://b/&" TOPIC,
                   "hub.callback: neither http nor https: \"gopher://b/\"");
}

/* Comparing */

static void
assert_comparable(const char *url, const char *comparable)
{
    struct buf b, again;

    buf_init(&b, 4 * WEBSUB_URL_MAX);
    buf_init(&again, 4 * WEBSUB_URL_MAX);
    assert_int_equal(websub_check_url(slice_of(url), "url", NULL), 0);
    websub_comparable(&b, slice_of(url));
    assert_slice(buf_slice(&b), comparable);
    websub_comparable(&again, buf_slice(&b));
    assert_slice(buf_slice(&again), comparable);
    buf_fini(&b);
    buf_fini(&again);
}

/* W-026, RFC 3986 section 6.2.2 */
static void
what_means_the_same_compares_equal(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_comparable(rows[i][0], rows[i][1]);
}

/* W-034 */
static void
what_may_differ_to_a_server_does_not_compare_equal(void **state)
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

    (void)state;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            struct buf a, b;

            buf_init(&a, 100);
            buf_init(&b, 100);
            websub_comparable(&a, slice_of(urls[i]));
            websub_comparable(&b, slice_of(urls[k]));
            if (slice_equal(buf_slice(&a), buf_slice(&b)))
                fail_msg("%s and %s", urls[i], urls[k]);
            buf_fini(&a);
            buf_fini(&b);
        }
}

/* W-161, W-164: who writes an address in another way has no limit of his own.
 */
static void
an_authority_is_the_same_however_it_is_spelled(void **state)
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
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b;

        buf_init(&b, 300);
        assert_int_equal(websub_check_url(slice_of(rows[i][0]), "url", NULL),
                         0);
        websub_authority(&b, slice_of(rows[i][0]));
        assert_slice(buf_slice(&b), rows[i][1]);
        buf_fini(&b);
    }
}

/* Composing */

/* W-050, W-053, W-054 */
static void
a_verification_says_what_was_asked_for(void **state)
{
    char challenge[WEBSUB_CHALLENGE_SIZE];
    struct buf b;

    (void)state;
    assert_true(WEBSUB_CHALLENGE_SIZE * 4 >= 128);
    memset(challenge, 'c', sizeof(challenge));
    buf_init(&b, 1000);

    websub_verification_url(&b, SLICE("http://b.example/cb"), WEBSUB_SUBSCRIBE,
                            SLICE("http://a.example/?x=1&y=a+b%20c"),
                            (struct slice){challenge, sizeof(challenge)},
                            864000);

    assert_slice(
        buf_slice(&b),
        "http://b.example/cb?hub.mode=subscribe"
        "&hub.topic=http%3A%2F%2Fa.example%2F%3Fx%3D1%26y%3Da%2Bb%2520c"
        "&hub.challenge="
        "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
        "&hub.lease_seconds=864000");
    buf_fini(&b);
}

/* W-050 */
static void
the_verification_of_an_unsubscription_has_no_lease(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 1000);

    websub_verification_url(&b, SLICE("http://b.example/cb"),
                            WEBSUB_UNSUBSCRIBE, SLICE("http://a.example/"),
                            SLICE("c"), 300);

    assert_slice(buf_slice(&b), "http://b.example/cb?hub.mode=unsubscribe"
                                "&hub.topic=http%3A%2F%2Fa.example%2F"
                                "&hub.challenge=c");
    buf_fini(&b);
}

/* W-051, W-052: byte for byte, the same names included; RFC 3986 section 3.4: a
 * "?" within a query does not begin another. */
static void
keeps_the_query_of_the_callback(void **state)
{
    static const char *const rows[][2] = {
        {"HTTP://B.example:80", "?"},
        {"http://b.example/cb", "?"},
        {"http://b.example/cb?", ""},
        {"http://b.example/cb?a=%7E+%zz", "&"},
        {"http://b.example/cb?a=1&", ""},
        {"http://b.example/cb?hub.mode=x&hub.challenge=y", "&"},
        {"http://b.example/cb?a=what?", "&"},
        {"http://b.example/cb??", "&"},
        {"http://b.example/cb&", "?"},
        {"http://b.example/cb?&", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char expected[300];
        struct buf b;

        buf_init(&b, 1000);
        websub_verification_url(&b, slice_of(rows[i][0]), WEBSUB_SUBSCRIBE,
                                SLICE("t"), SLICE("c"), 1);
        snprintf(expected, sizeof(expected),
                 "%s%shub.mode=subscribe&hub.topic=t&hub.challenge=c"
                 "&hub.lease_seconds=1",
                 rows[i][0], rows[i][1]);
        assert_slice(buf_slice(&b), expected);

        buf_clear(&b);
        websub_denial_url(&b, slice_of(rows[i][0]), SLICE("t"), SLICE(""));
        snprintf(expected, sizeof(expected), "%s%shub.mode=denied&hub.topic=t",
                 rows[i][0], rows[i][1]);
        assert_slice(buf_slice(&b), expected);
        buf_fini(&b);
    }
}

/* W-041 */
static void
a_denial_gives_its_reason(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 1000);

    websub_denial_url(&b, SLICE("http://b.example/?a=1"),
                      SLICE("http://a.example/"),
                      SLICE("no such topic: \"a\""));

    assert_slice(buf_slice(&b), "http://b.example/?a=1&hub.mode=denied"
                                "&hub.topic=http%3A%2F%2Fa.example%2F"
                                "&hub.reason=no%20such%20topic%3A%20%22a%22");
    buf_fini(&b);
}

/* W-026, W-163: whatever is in it, it is one parameter. */
static void
what_is_added_cannot_leave_its_parameter(void **state)
{
    static const char text[] = "x\r\nHost: y&hub.mode=subscribe#?=+% \xc3\xa5";
    struct slice url, value;
    struct form_data form;
    struct buf b;

    (void)state;
    buf_init(&b, 1000);

    websub_denial_url(&b, SLICE("http://b.example/"), SLICE(text), SLICE(text));

    url = buf_slice(&b);
    assert_int_equal(websub_check_url(url, "url", NULL), 0);
    (void)slice_take(&url, '?');
    assert_int_equal(form_read(&form, url, NULL), 0);
    assert_int_equal(form.n, 3);
    assert_true(form_get(&form, "hub.mode", &value));
    assert_slice(value, "denied");
    assert_true(form_get(&form, "hub.topic", &value));
    assert_slice(value, text);
    assert_true(form_get(&form, "hub.reason", &value));
    assert_slice(value, text);
    form_fini(&form);
    buf_fini(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_subscription),
        cmocka_unit_test(needs_mode_topic_and_callback),
        cmocka_unit_test(knows_three_modes_in_one_case),
        cmocka_unit_test(refuses_a_parameter_with_two_values),
        cmocka_unit_test(takes_secrets_below_200_bytes),
        cmocka_unit_test(an_empty_secret_is_none),
        cmocka_unit_test(takes_leases_of_every_length),
        cmocka_unit_test(refuses_what_is_no_lease),
        cmocka_unit_test(an_unsubscription_may_name_any_lease),
        cmocka_unit_test(leaves_unknown_parameters_alone),
        cmocka_unit_test(decodes_exactly_once),
        cmocka_unit_test(a_publish_names_topics_by_both_names),
        cmocka_unit_test(a_publish_needs_a_url_and_urls_only),
        cmocka_unit_test(takes_urls_of_http_and_https),
        cmocka_unit_test(refuses_other_schemes_and_relative_urls),
        cmocka_unit_test(refuses_every_control_character_and_blank),
        cmocka_unit_test(refuses_what_ends_a_url_elsewhere),
        cmocka_unit_test(refuses_user_info),
        cmocka_unit_test(refuses_ports_that_are_none),
        cmocka_unit_test(refuses_hosts_that_are_none),
        cmocka_unit_test(asks_for_ascii),
        cmocka_unit_test(refuses_fragments),
        cmocka_unit_test(takes_urls_up_to_a_limit),
        cmocka_unit_test(says_which_url_is_none),
        cmocka_unit_test(what_means_the_same_compares_equal),
        cmocka_unit_test(what_may_differ_to_a_server_does_not_compare_equal),
        cmocka_unit_test(an_authority_is_the_same_however_it_is_spelled),
        cmocka_unit_test(a_verification_says_what_was_asked_for),
        cmocka_unit_test(the_verification_of_an_unsubscription_has_no_lease),
        cmocka_unit_test(keeps_the_query_of_the_callback),
        cmocka_unit_test(a_denial_gives_its_reason),
        cmocka_unit_test(what_is_added_cannot_leave_its_parameter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
