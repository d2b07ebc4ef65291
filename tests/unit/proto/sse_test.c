#include "proto/http/sse.h"

#include <stdio.h>

#include "tests/test.h"

#define DATA_MAX 1000

/* Reads `bytes` in pieces of `step`; writes "NAME/ID=DATA|" of each event to
 * `seen`. */
static enum status
read_in_steps(struct slice bytes, size_t step, char *seen, size_t size,
              unsigned *retry_ms)
{
    struct sse sse;
    struct sse_event event;
    struct problem why = {.text = ""};
    enum status rc = STATUS_AGAIN;
    size_t n = 0;

    seen[0] = '\0';
    sse_init(&sse, DATA_MAX);
    while (bytes.size > 0 && rc == STATUS_AGAIN) {
        struct slice piece = {bytes.data,
                              bytes.size < step ? bytes.size : step};

        bytes.data += piece.size;
        bytes.size -= piece.size;
        while (!(rc = sse_read(&sse, &piece, &event, &why)))
            n += (size_t)snprintf(seen + n, size - n, "%.*s/%.*s=%.*s|",
                                  SLICE_ARG(event.name), SLICE_ARG(event.id),
                                  (int)event.size, event.data);
        if (rc == STATUS_AGAIN)
            assert_int_equal(piece.size, 0);
        else
            assert_string_not_equal(why.text, "");
    }
    if (retry_ms)
        *retry_ms = sse.retry_ms;
    sse_fini(&sse);
    return rc;
}

static void
assert_events(struct slice bytes, const char *expected)
{
    char seen[2000];

    for (size_t step = 1; step <= bytes.size; step++) {
        assert_int_equal(read_in_steps(bytes, step, seen, sizeof(seen), NULL),
                         STATUS_AGAIN);
        assert_string_equal(seen, expected);
    }
}

TEST(events_have_names_ids_and_data)
{
    assert_events(SLICE("id: e-1\nevent: changes\ndata: {\"a\":1}\n\n"
                        "data:two\n\n"
                        "event: other\nid\ndata:  three\n\n"),
                  "changes/e-1={\"a\":1}|message/e-1=two|other/= three|");
}

TEST(lines_end_in_three_ways)
{
    assert_events(SLICE("data: a\r\ndata: b\r\n\r\ndata: c\rdata: d\r\r"
                        "data: e\n\ndata: f\r\n\n"),
                  "message/=a\nb|message/=c\nd|message/=e|message/=f|");
}

TEST(data_may_be_empty_lines)
{
    assert_events(SLICE("data\n\ndata\ndata\n\ndata:\n\n"),
                  "message/=|message/=\n|message/=|");
}

TEST(events_without_data_are_none)
{
    assert_events(SLICE("event: a\n\nid: 7\n\n\n\ndata: x\n\n"),
                  "message/7=x|");
}

TEST(the_last_of_two_names_counts)
{
    assert_events(SLICE("event: a\nevent: b\ndata: x\n\n"
                        "event: a\nevent\ndata: x\n\n"),
                  "b/=x|message/=x|");
}

TEST(comments_and_other_fields_are_passed_over)
{
    assert_events(SLICE(": comment\n:\nfoo: bar\n DATA: no\nDATA: no\n"
                        "data : no\nda: no\ndatax: no\ndata: yes\n\n"),
                  "message/=yes|");
}

TEST(a_byte_order_mark_stands_at_the_beginning_only)
{
    assert_events(SLICE("\xef\xbb\xbf"
                        "data: a\n\n\xef\xbb\xbf"
                        "data: b\n\ndata: c\n\n"),
                  "message/=a|message/=c|");
    assert_events(SLICE("\xef\xbb"
                        "data: a\ndata: b\n\n"),
                  "message/=b|");
}

TEST(an_event_that_is_cut_off_is_none)
{
    assert_events(SLICE("data: a\n\ndata: b\n"), "message/=a|");
    assert_events(SLICE("data: a\n\ndata: b"), "message/=a|");
}

TEST(an_id_with_a_nul_is_none)
{
    assert_events(SLICE("id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n"),
                  "message/1=a|message/1=b|");
}

TEST(the_time_to_wait_is_digits_alone)
{
    static const struct {
        const char *text;
        unsigned ms;
    } times[] = {{"retry: 2417\n", 2417},
                 {"retry: 2417\nretry: 24x\nretry: -1\nretry:\n", 2417},
                 {"retry: 0\n", 0},
                 {"retry: 99999999999999999999\n", SSE_RETRY_MAX}};

    char seen[10];
    unsigned ms;

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        assert_int_equal(
            read_in_steps(slice_of(times[i].text), 3, seen, sizeof(seen), &ms),
            STATUS_AGAIN);
        assert_int_equal(ms, times[i].ms);
    }
}

/* "FIELD: " and so many bytes, as an event. */
static enum status
read_long(const char *field, size_t n, size_t step, char *seen, size_t size)
{
    struct buf text;
    enum status rc;

    buf_init(&text, 10000);
    buf_add_format(&text, "%s", field);
    for (size_t i = 0; i < n; i++)
        BUF_ADD(&text, "x");
    buf_add_text(&text, "\ndata: y\n\n");
    assert_false(text.failed);
    rc = read_in_steps(buf_slice(&text), step, seen, size, NULL);
    buf_fini(&text);
    return rc;
}

/* As if the line were not there. */
TEST(an_id_that_is_too_long_is_ignored)
{
    char without[2000], seen[2000];

    assert_int_equal(read_long("nothing: ", 1, 1, without, 2000), STATUS_AGAIN);
    for (size_t step = 1; step < 2000; step += 250) {
        assert_int_equal(read_long("id: ", SSE_VALUE_MAX + 1, step, seen, 2000),
                         STATUS_AGAIN);
        assert_string_equal(seen, without);
    }
}

TEST(what_is_too_long_ends_it)
{
    char seen[2000];

    for (size_t step = 1; step < 2000; step += 250) {
        assert_int_equal(read_long("id: ", SSE_VALUE_MAX, step, seen, 2000),
                         STATUS_AGAIN);
        assert_int_equal(
            read_long("event: ", SSE_VALUE_MAX + 1, step, seen, 2000),
            STATUS_TOO_LARGE);
        assert_int_equal(read_long("data: ", DATA_MAX - 2, step, seen, 2000),
                         STATUS_AGAIN);
        assert_int_equal(read_long("data: ", DATA_MAX - 1, step, seen, 2000),
                         STATUS_TOO_LARGE);
        assert_int_equal(read_long("data: ", DATA_MAX + 1, step, seen, 2000),
                         STATUS_TOO_LARGE);
    }
}

TEST(what_nobody_reads_may_be_long)
{
    static const char *const fields[] = {": ", "other: ", "", "dat", "id"};
    char seen[2000];

    for (size_t step = 1; step < 2000; step += 250)
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
            assert_int_equal(read_long(fields[i], 5000, step, seen, 2000),
                             STATUS_AGAIN);
            assert_string_equal(seen, "message/=y|");
        }
}

/* A name that continues behind a known name is another one. */
TEST(a_long_name_that_begins_like_another_is_not_that)
{
    char text[400];
    struct slice pieces[2] = {{text, 4}, {text + 4, 396}};
    struct sse sse;
    struct sse_event event;

    memset(text, 'x', sizeof(text));
    memcpy(text, "data", 4);
    memcpy(text + 300, ": 1\nid: 2\ndata: 3\n\n", 19);
    pieces[1].size = 315;
    sse_init(&sse, DATA_MAX);
    assert_int_equal(sse_read(&sse, &pieces[0], &event, NULL), STATUS_AGAIN);
    assert_int_equal(sse_read(&sse, &pieces[1], &event, NULL), STATUS_OK);
    assert_true(slice_is((struct slice){event.data, event.size}, "3"));
    assert_true(slice_is(event.id, "2"));

    memcpy(text, "id", 2);
    memcpy(text + 300, "\ndata: 4\n\n", 10);
    pieces[0] = (struct slice){text, 2};
    pieces[1] = (struct slice){text + 2, 308};
    assert_int_equal(sse_read(&sse, &pieces[0], &event, NULL), STATUS_AGAIN);
    assert_int_equal(sse_read(&sse, &pieces[1], &event, NULL), STATUS_OK);
    assert_true(slice_is(event.id, "2"));
    sse_fini(&sse);
}
