#include "proto/websub.h"

#include <stdio.h>

#include "tests/test.h"

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
TEST(reads_a_subscription)
{
    struct form_data form;
    struct websub_request request;

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
TEST(needs_mode_topic_and_callback)
{
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
TEST(knows_three_modes_in_one_case)
{
    static const char *const others[] = {"PUBLISH", "Subscribe", "denied",
                                         "subscribe ", "sub"};
    struct form_data form;

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
TEST(refuses_a_parameter_with_two_values)
{
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
TEST(takes_secrets_below_200_bytes)
{
    static const char piece[] = "%C3%A5";
    char body[2000] = "hub.mode=subscribe" BOTH "&hub.secret=a";
    size_t size = strlen(body);
    struct form_data form;

    for (size_t i = 0; i < 99; i++, size += sizeof(piece) - 1)
        memcpy(body + size, piece, sizeof(piece));
    assert_int_equal(accepted(&form, body).secret.size, 199);
    form_fini(&form);

    strcpy(body + size, "a");
    assert_status(body, STATUS_INVALID,
                  "hub.secret: 200 bytes long; at most 199 are allowed");
}

/* W-037 */
TEST(an_empty_secret_is_none)
{
    struct form_data form;

    assert_int_equal(
        accepted(&form, "hub.mode=subscribe" BOTH "&hub.secret=").secret.size,
        0);
    form_fini(&form);
    assert_int_equal(accepted(&form, "hub.mode=subscribe" BOTH).secret.size, 0);
    form_fini(&form);
}

/* W-024 */
TEST(takes_leases_of_every_length)
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
TEST(refuses_what_is_no_lease)
{
    static const char *const others[] = {"0",   "000", "-1",  "+1", "1.5",
                                         "1e3", "ten", "0x1", " 1", "1 "};

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
TEST(an_unsubscription_may_name_any_lease)
{
    struct form_data form;

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
TEST(leaves_unknown_parameters_alone)
{
    assert_accepted("foo=1&hub.foo=2&hub.foo=3&foo=&hub.mode=subscribe" BOTH
                    "&hub.verify=sync&hub.verify=async&HUB.MODE=x&mode=y"
                    "&hub.url=nonsense");
}

/* W-026 */
TEST(decodes_exactly_once)
{
    struct form_data form;
    struct websub_request request;

    request = accepted(
        &form, "hub.mode=subscribe&hub.topic=http://a.example/%257Ex?a%3Db%2Bc"
               "&hub.callback=http://b.example/?a=1%26b=%2525%2B=%3D");

    assert_slice(request.topic, "http://a.example/%7Ex?a=b+c");
    assert_slice(request.callback, "http://b.example/?a=1&b=%25+==");
    form_fini(&form);
}

/* Publishing */

/* W-121 */
TEST(a_publish_names_topics_by_both_names)
{
    struct slice topic;
    struct form_data form;
    struct websub_request request;
    size_t at = 0;

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
TEST(a_publish_needs_a_url_and_urls_only)
{
    assert_refused("hub.mode=publish",
                   "hub.url or hub.topic: missing; one of them names the topic "
                   "that has changed");
    assert_refused("hub.mode=publish&hub.url=", "hub.url or hub.topic: empty");
    assert_refused("hub.mode=publish&" TOPIC "&hub.url=ftp://a.example/",
                   "hub.url or hub.topic: neither http nor https: "
                   "\"ftp://a.example/\"");
}

/* W-027: it is the parameter's own name that the answer has. */
TEST(says_which_url_is_none)
{
    assert_refused("hub.mode=subscribe&hub.topic=/x&" CALLBACK,
                   "hub.topic: not an absolute URI: \"/x\"");
    assert_refused("hub.mode=unsubscribe&hub.callback=gopher://b/&" TOPIC,
                   "hub.callback: neither http nor https: \"gopher://b/\"");
}

/* Composing */

/* W-050, W-053, W-054 */
TEST(a_verification_says_what_was_asked_for)
{
    char challenge[WEBSUB_CHALLENGE_SIZE];
    struct buf b;

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
TEST(the_verification_of_an_unsubscription_has_no_lease)
{
    struct buf b;

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
TEST(keeps_the_query_of_the_callback)
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
TEST(a_denial_gives_its_reason)
{
    struct buf b;

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
TEST(what_is_added_cannot_leave_its_parameter)
{
    static const char text[] = "x\r\nHost: y&hub.mode=subscribe#?=+% \xc3\xa5";
    struct slice url, value;
    struct form_data form;
    struct buf b;

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
