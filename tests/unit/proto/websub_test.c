#include "proto/http/websub.h"

#include <stdio.h>
#include <stdlib.h>

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

/* The last form that was read, and room for written text. */
struct stage {
    struct urlencoded_data form;
    struct websub_request request; /* lends from `form` */
    struct buf b;
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    assert_int_equal(urlencoded_read(&s->form, SLICE(""), NULL), 0);
    buf_init(&s->b, 1000);
    *state = s;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    urlencoded_fini(&s->form);
    buf_fini(&s->b);
    free(s);
    return 0;
}

/* Fills `form` and `request`, until the next call. */
static enum status
read_request(struct stage *s, const char *body, struct problem *why)
{
    urlencoded_fini(&s->form);
    assert_int_equal(urlencoded_read(&s->form, slice_of(body), NULL), 0);
    return websub_read(&s->form, &s->request, why);
}

static const struct websub_request *
accepted(struct stage *s, const char *body)
{
    struct problem why = {""};

    if (read_request(s, body, &why))
        fail_msg("%s: %s", body, why.text);
    return &s->request;
}

static void
assert_status(struct stage *s, const char *body, enum status status,
              const char *reason)
{
    struct problem why = {""};

    if (read_request(s, body, &why) != status || strcmp(why.text, reason) != 0)
        fail_msg("%s: %s", body, why.text);
}

static void
assert_refused(struct stage *s, const char *body, const char *reason)
{
    assert_status(s, body, STATUS_MALFORMED, reason);
}

FIXTURE(set_stage, clear_stage);

/* Requests */

/* W-021 */
TEST(reads_a_subscription)
{
    const struct websub_request *request =
        accepted(*state, "hub.mode=subscribe" BOTH
                         "&hub.secret=a+b%2B&hub.lease_seconds=864000");

    assert_int_equal(request->mode, WEBSUB_SUBSCRIBE);
    assert_slice(request->topic, "http://a.example/topic");
    assert_slice(request->callback, "http://b.example/cb");
    assert_slice(request->secret, "a b+");
    assert_int_equal(request->lease_s, 864000);
}

/* W-021, W-027, W-122: the answer names the parameter. */
TEST(refuses_parameters_that_are_missing_or_no_urls)
{
    static const char *const rows[][2] = {
        {"", "hub.mode: missing or empty"},
        {TOPIC "&" CALLBACK, "hub.mode: missing or empty"},
        {"hub.mode=" BOTH, "hub.mode: missing or empty"},
        {"hub.mode=subscribe&" CALLBACK, "hub.topic: missing or empty"},
        {"hub.mode=subscribe&hub.topic&" CALLBACK,
         "hub.topic: missing or empty"},
        {"hub.mode=unsubscribe&" TOPIC, "hub.callback: missing or empty"},
        {"hub.mode=unsubscribe&hub.callback=&" TOPIC,
         "hub.callback: missing or empty"},
        {"hub.mode=subscribe&hub.topic=/x&" CALLBACK,
         "hub.topic: not an absolute URI, such as http://example.com/a: "
         "\"/x\""},
        {"hub.mode=unsubscribe&hub.callback=gopher://b/&" TOPIC,
         "hub.callback: neither http nor https: \"gopher://b/\""},
        {"hub.mode=publish",
         "hub.url or hub.topic: missing; one of them names the topic that has "
         "changed"},
        {"hub.mode=publish&hub.url=", "hub.url or hub.topic: empty"},
        {"hub.mode=publish&" TOPIC "&hub.url=ftp://a.example/",
         "hub.url or hub.topic: neither http nor https: "
         "\"ftp://a.example/\""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_refused(*state, rows[i][0], rows[i][1]);
}

/* W-022 */
TEST(knows_three_modes_in_one_case)
{
    static const char *const others[] = {"PUBLISH", "Subscribe", "denied",
                                         "subscribe ", "sub"};

    assert_int_equal(accepted(*state, "hub.mode=unsubscribe" BOTH)->mode,
                     WEBSUB_UNSUBSCRIBE);
    assert_int_equal(accepted(*state, "hub.mode=publish&" TOPIC)->mode,
                     WEBSUB_PUBLISH);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char body[200], reason[200];

        snprintf(body, sizeof(body), "hub.mode=%s" BOTH, others[i]);
        snprintf(reason, sizeof(reason),
                 "hub.mode: neither \"subscribe\" nor \"unsubscribe\" nor "
                 "\"publish\": \"%s\"",
                 others[i]);
        assert_refused(*state, body, reason);
    }
}

/* Nobody knows which of the two is meant; the same value twice harms nobody. */
TEST(refuses_a_parameter_with_two_values)
{
    static const struct {
        const char *name, *more;
    } rows[] = {
        {"hub.mode", "&hub.mode=unsubscribe"},
        {"hub.topic", "&hub.topic=http://c.example/"},
        {"hub.callback", "&hub.callback="},
        {"hub.secret", "&hub.secret=&hub.secret=a"},
        {"hub.lease_seconds", "&hub.lease_seconds=5&hub.lease_seconds=6"},
    };

    char body[300], reason[100];

    accepted(*state, "hub.mode=subscribe&hub.mode=subscribe" BOTH BOTH
                     "&hub.secret=a&hub.secret=a");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(body, sizeof(body), "hub.mode=subscribe" BOTH "%s",
                 rows[i].more);
        snprintf(reason, sizeof(reason),
                 "%s: there twice, with different values", rows[i].name);
        assert_refused(*state, body, reason);
    }
}

/* W-023: bytes as they are decoded, not characters, not escapes. */
TEST(takes_secrets_below_200_bytes)
{
    static const char piece[] = "%C3%A5";
    char body[2000] = "hub.mode=subscribe" BOTH "&hub.secret=a";
    size_t size = strlen(body);

    for (size_t i = 0; i < 99; i++, size += sizeof(piece) - 1)
        memcpy(body + size, piece, sizeof(piece));
    assert_int_equal(accepted(*state, body)->secret.size, 199);

    strcpy(body + size, "a");
    assert_status(*state, body, STATUS_INVALID,
                  "hub.secret: 200 bytes long; at most 199 are allowed");
}

/* W-037 */
TEST(an_empty_secret_is_none)
{
    assert_slice(
        accepted(*state, "hub.mode=subscribe" BOTH "&hub.secret=")->secret, "");
    assert_slice(accepted(*state, "hub.mode=subscribe" BOTH)->secret, "");
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

        snprintf(body, sizeof(body),
                 "hub.mode=subscribe" BOTH "&hub.lease_seconds=%s",
                 rows[i].text);
        if (accepted(*state, body)->lease_s != rows[i].lease_s)
            fail_msg("\"%s\"", rows[i].text);
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
        urlencoded_add(&body, "hub.lease_seconds", slice_of(others[i]));
        BUF_ADD(&body, "\0");
        snprintf(reason, sizeof(reason),
                 "hub.lease_seconds: not a positive number of seconds: \"%s\"",
                 others[i]);
        assert_refused(*state, body.data, reason);
        buf_fini(&body);
    }
}

/* W-024 */
TEST(an_unsubscription_may_name_any_lease)
{
    static const char *const leases[] = {
        "&hub.lease_seconds=-1&hub.lease_seconds=x",
        "&hub.lease_seconds=300",
    };
    char body[200];

    for (size_t i = 0; i < 2; i++) {
        snprintf(body, sizeof(body), "hub.mode=unsubscribe" BOTH "%s",
                 leases[i]);
        assert_int_equal(accepted(*state, body)->lease_s, 0);
    }
}

/* W-025 */
TEST(leaves_unknown_parameters_alone)
{
    accepted(*state, "foo=1&hub.foo=2&hub.foo=3&foo=&hub.mode=subscribe" BOTH
                     "&hub.verify=sync&hub.verify=async&HUB.MODE=x&mode=y"
                     "&hub.url=nonsense");
}

/* W-026 */
TEST(decodes_exactly_once)
{
    const struct websub_request *request = accepted(
        *state, "hub.mode=subscribe&hub.topic=http://a.example/%257Ex?a%3Db%2Bc"
                "&hub.callback=http://b.example/?a=1%26b=%2525%2B=%3D");

    assert_slice(request->topic, "http://a.example/%7Ex?a=b+c");
    assert_slice(request->callback, "http://b.example/?a=1&b=%25+==");
}

/* Publishing */

/* W-121 */
TEST(a_publish_names_topics_by_both_names)
{
    static const char *const topics[] = {
        "http://a.example/1", "http://a.example/topic", "http://a.example/2",
        "http://a.example/1"};
    struct stage *s = *state;
    struct slice topic;
    size_t at = 0;

    accepted(s, "hub.url=http://a.example/1&hub.mode=publish&" TOPIC
                "&hub.url%5B%5D=http://a.example/2&hub.urls=x"
                "&hub.topic[7]=http://a.example/1");

    assert_int_equal(s->request.topic.size, 0);
    for (size_t i = 0; i < 4; i++) {
        assert_true(websub_next_topic(&s->form, &at, &topic));
        assert_slice(topic, topics[i]);
    }
    assert_false(websub_next_topic(&s->form, &at, &topic));
    assert_false(websub_next_topic(&s->form, &at, &topic));
}

/* Composing */

/* W-050, W-053, W-054 */
TEST(a_verification_says_what_was_asked_for)
{
    char challenge[WEBSUB_CHALLENGE_SIZE];
    struct stage *s = *state;

    assert_true(WEBSUB_CHALLENGE_SIZE * 4 >= 128);
    memset(challenge, 'c', sizeof(challenge));
    websub_verification_url(
        &s->b, SLICE("http://b.example/cb"), WEBSUB_SUBSCRIBE,
        SLICE("http://a.example/?x=1&y=a+b%20c"),
        (struct slice){challenge, sizeof(challenge)}, 864000);

    assert_slice(
        buf_slice(&s->b),
        "http://b.example/cb?hub.mode=subscribe"
        "&hub.topic=http%3A%2F%2Fa.example%2F%3Fx%3D1%26y%3Da%2Bb%2520c"
        "&hub.challenge="
        "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
        "&hub.lease_seconds=864000");
}

/* W-050 */
TEST(the_verification_of_an_unsubscription_has_no_lease)
{
    struct stage *s = *state;

    websub_verification_url(&s->b, SLICE("http://b.example/cb"),
                            WEBSUB_UNSUBSCRIBE, SLICE("http://a.example/"),
                            SLICE("c"), 300);

    assert_slice(buf_slice(&s->b), "http://b.example/cb?hub.mode=unsubscribe"
                                   "&hub.topic=http%3A%2F%2Fa.example%2F"
                                   "&hub.challenge=c");
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
        struct stage *s = *state;

        buf_clear(&s->b);
        websub_verification_url(&s->b, slice_of(rows[i][0]), WEBSUB_SUBSCRIBE,
                                SLICE("t"), SLICE("c"), 1);
        snprintf(expected, sizeof(expected),
                 "%s%shub.mode=subscribe&hub.topic=t&hub.challenge=c"
                 "&hub.lease_seconds=1",
                 rows[i][0], rows[i][1]);
        assert_slice(buf_slice(&s->b), expected);

        buf_clear(&s->b);
        websub_denial_url(&s->b, slice_of(rows[i][0]), SLICE("t"), SLICE(""));
        snprintf(expected, sizeof(expected), "%s%shub.mode=denied&hub.topic=t",
                 rows[i][0], rows[i][1]);
        assert_slice(buf_slice(&s->b), expected);
    }
}

/* W-041 */
TEST(a_denial_gives_its_reason)
{
    struct stage *s = *state;

    websub_denial_url(&s->b, SLICE("http://b.example/?a=1"),
                      SLICE("http://a.example/"),
                      SLICE("no such topic: \"a\""));

    assert_slice(buf_slice(&s->b),
                 "http://b.example/?a=1&hub.mode=denied"
                 "&hub.topic=http%3A%2F%2Fa.example%2F"
                 "&hub.reason=no%20such%20topic%3A%20%22a%22");
}

/* W-026, W-163: any bytes make one parameter. */
TEST(what_is_added_cannot_leave_its_parameter)
{
    static const char text[] = "x\r\nHost: y&hub.mode=subscribe#?=+% \xc3\xa5";
    struct slice url, value;
    struct urlencoded_data form;
    struct stage *s = *state;

    websub_denial_url(&s->b, SLICE("http://b.example/"), SLICE(text),
                      SLICE(text));

    url = buf_slice(&s->b);
    assert_int_equal(websub_check_url(url, "url", NULL), 0);
    (void)slice_take(&url, '?');
    assert_int_equal(urlencoded_read(&form, url, NULL), 0);
    assert_int_equal(form.n, 3);
    assert_true(urlencoded_get(&form, "hub.mode", &value));
    assert_slice(value, "denied");
    assert_true(urlencoded_get(&form, "hub.topic", &value));
    assert_slice(value, text);
    assert_true(urlencoded_get(&form, "hub.reason", &value));
    assert_slice(value, text);
    urlencoded_fini(&form);
}
