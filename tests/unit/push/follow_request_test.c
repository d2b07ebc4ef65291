#include "broker/push/follow_request.h"

#include <inttypes.h>

#include "proto/buf.h"
#include "proto/datetime.h"
#include "tests/test.h"

/* "a@E-3 -b c*" */
static void
write_items(struct buf *to, const struct follow_request *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct follow_item *item = &r->items[i];

        buf_add_format(to, "%s%s%s", i > 0 ? " " : "", item->is_end ? "-" : "",
                       item->name);
        assert_int_equal(item->is_pattern, strchr(item->name, '*') != NULL);
        if (item->has_after)
            buf_add_format(to, "@%s:%" PRIu64, item->after.epoch,
                           item->after.seq);
        if (item->has_since)
            buf_add_format(to, "@%" PRId64, item->since_us);
    }
}

typedef enum status reader_fn(struct follow_request *, struct slice,
                              struct problem *);

static void
check(reader_fn *read, const char *text, const char *expected)
{
    struct follow_request r = {.n = 0};
    struct problem why = {""};
    struct buf seen;

    buf_init(&seen, SIZE_MAX);
    if (read(&r, slice_of(text), &why))
        buf_add_text(&seen, why.text);
    else
        write_items(&seen, &r);
    if (!slice_is(buf_slice(&seen), expected))
        fail_msg("%s: \"%.*s\", not \"%s\"", text, SLICE_ARG(buf_slice(&seen)),
                 expected);
    buf_fini(&seen);
    follow_request_fini(&r);
}

static const struct {
    const char *text, *expected;
} queries[] = {
    {"", ""},
    {"tag=a&type=b", ""},
    {"set=a", "a"},
    {"set=a&set=b@0&tag=x&set=c%400123456789abcdef-7",
     "a b@:0 c@0123456789abcdef:7"},
    {"set=news-*&set=%2A@0", "news-* *@:0"},
    {"set=", "neither the name of a set nor a pattern: \"\""},
    {"set=A", "neither the name of a set nor a pattern: \"A\""},
    {"set=a@", "not a position, which is EPOCH-SEQ or a seq: \"\""},
    {"set=a@-1", "not a position, which is EPOCH-SEQ or a seq: \"-1\""},
    {"set=a%0", "set: too long, or a bad escape: \"a%0\""},
    {"set=a*@3", "the sets of the pattern a* have no common position: they "
                 "begin now, or after 0"},
};

TEST(reads_queries)
{
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
        check(follow_request_query, queries[i].text, queries[i].expected);
}

#define SHAPE                                                   \
    "not {\"follow\": [{\"set\": NAME, \"after\": POSITION}], " \
    "\"unfollow\": [NAME], \"resume\": TEXT}"

static const struct {
    const char *text, *expected;
} messages[] = {
    {"{}", ""},
    {"{\"follow\":[]}", ""},
    {"{\"follow\":[{\"set\":\"a\",\"after\":\"0123456789abcdef-7\"},"
     "{\"after\":\"0\",\"set\":\"b\"}],\"unfollow\":[\"c\",\"d*\"]}",
     "a@0123456789abcdef:7 b@:0 -c -d*"},
    {"{\"unfollow\":[\"c\"],\"follow\":[{\"set\":\"a\","
     "\"since\":\"1970-01-01T00:00:01Z\"}]}",
     "-c a@1000000"},
    {"[]", SHAPE},
    {"7", SHAPE},
    {"\"follow\"", SHAPE},
    {"{\"follow\":[\"a\"]}", SHAPE},
    {"{\"follow\":{\"set\":\"a\"}}", SHAPE},
    {"{\"follow\":[{\"set\":[\"a\"]}]}", SHAPE},
    {"{\"follow\":[{\"set\":7}]}", SHAPE},
    {"{\"follow\":[{\"name\":\"a\"}]}", SHAPE},
    {"{\"unfollow\":[{\"set\":\"a\"}]}", SHAPE},
    {"{\"unfollow\":null}", SHAPE},
    {"{\"sets\":[]}", SHAPE},
    {"{\"follow\":[{\"set\":\"a\",\"an-unknown-member\":\"\"}]}",
     "an unknown member: \"an-unknown-member\""},
    {"{\"follow\":[{}]}", "an object of follow has no set"},
    {"{\"follow\":[{\"set\":\"a\",\"after\":\"0\",\"since\":\"2026\"}]}",
     "since and after of a contradict each other: give one"},
    {"{\"follow\":[{\"set\":\"a*\",\"since\":\"2026\"}]}",
     "the sets of the pattern a* have no common position: they begin now, or "
     "after 0"},
    {"{\"follow\":[{\"set\":\"a\",\"since\":\"soon\"}]}",
     "since: not a W3C Datetime: \"soon\""},
};

TEST(reads_messages)
{
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
        check(follow_request_json, messages[i].text, messages[i].expected);
}

TEST(tells_bad_json_from_a_bad_request)
{
    struct follow_request r = {.n = 0};

    assert_int_equal(follow_request_json(&r, SLICE("{"), NULL),
                     STATUS_MALFORMED);
    assert_int_equal(follow_request_json(&r, SLICE("{\"a\":1}"), NULL),
                     STATUS_INVALID);
    follow_request_fini(&r);
}
