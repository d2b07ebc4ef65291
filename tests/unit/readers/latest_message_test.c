#include "broker/readers/latest_message.h"

#include "broker/sets/framework_events.h"
#include "tests/clock.h"
#include "tests/support/channel.h"
#include "tests/test.h"
#include "tests/unit/readers/messages.h"

/* Writes the latest message of a channel to `text`. */
static void
latest(struct set *set, bool is_framework, size_t max_bytes)
{
    const struct message_wish wish = {
        .set = set, .max_bytes = max_bytes, .is_framework = is_framework};

    buf_clear(&text);
    assert_int_equal(latest_message_write(&text, &wish, NULL), STATUS_OK);
}

/* The latest message of a channel has the same bytes as `text`. */
static void
assert_is_text_of(struct set *set, bool is_framework, size_t max_bytes)
{
    struct buf wanted = text;

    buf_init(&text, SIZE_MAX);
    latest(set, is_framework, max_bytes);
    assert_true(slice_equal(buf_slice(&text), buf_slice(&wanted)));
    buf_fini(&wanted);
}

static void
assert_is_text(struct set *set, size_t max_bytes)
{
    assert_is_text_of(set, false, max_bytes);
}

/* It has the same bytes as a subscriber got who is at the head. */
static void
assert_is_message(uint64_t after, uint64_t last)
{
    struct set *set = sets_find(&s, "demo");

    assert_int_equal(write_part(set, MESSAGE_XML, after, last, MIB, LOG_DISK),
                     last);
    assert_is_text(set, MIB);
}

FIXTURE(messages_open, messages_close);

/* R-285, W-148: the entries of the last commit, in this process and in the
 * next. */
TEST(is_what_the_last_commit_told)
{
    post_each(3, 5);
    assert_int_equal(sets_head(&s, "demo").commit_after, 10);
    assert_is_message(10, 15);
    sets_rotate(&s, "demo"); /* has no change */
    assert_is_message(10, 15);
    stage_restart();
    assert_is_message(10, 15);
    sets_post(&s, "demo", 15, 2);
    assert_is_message(15, 17);
}

/* R-287, W-148: the same in the next process where only closed lists' files
 * have the entries, and where the commit had several batches and lists. */
TEST(is_the_same_where_only_files_have_it, messages_configure, messages_close)
{
    static const struct {
        unsigned n, size; /* of the last commit */
        uint64_t lists;   /* that it closes by itself */
    } rows[] = {{5, 0, 0}, {25, 0, 2}, {8, 60000, 0}};

    s.config.rotate_entries = 10;
    sets_open(&s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t after, list;

        post_each(1, 1);
        sets_rotate(&s, "demo");
        after = sets_head(&s, "demo").last;
        list = sets_head(&s, "demo").list;
        if (rows[i].size > 0)
            sets_post_heavy(&s, "demo", after, rows[i].n, rows[i].size);
        else
            sets_post(&s, "demo", (unsigned)after, rows[i].n);
        assert_int_equal(sets_head(&s, "demo").list, list + rows[i].lists);
        sets_rotate(&s, "demo");
        sets_file_all(&s);
        channel_last(&s); /* one more commit: the log deletes rows */
        latest(sets_find(&s, "demo"), false, MIB);

        stage_restart();
        assert_int_equal(sets_head(&s, "demo").commit_after, after);
        assert_is_text(sets_find(&s, "demo"), MIB);
    }
}

/* of a commit that needs several messages, the last one. */
TEST(is_the_last_message_of_a_large_commit)
{
    struct set *set = post_each(1, 1);
    uint64_t after = 1, last = 1;

    sets_post_heavy(&s, "demo", 1, 300, 3000);
    for (unsigned n = 0; last < 301; n++) {
        after = last;
        last = write_on(set, MESSAGE_XML, after, 100000);
        assert_in_range(n, 0, 50);
    }
    assert_in_range(after, 200, 300);
    assert_is_text(set, 100000);
}

/* nothing before the first change, and when all is deleted. */
TEST(is_nothing_where_nothing_is_there)
{
    struct list_info list;
    struct set *set = post_each(1, 5);
    size_t n = 1;

    sets_rotate(&s, "demo");
    sets_file_all(&s);
    assert_int_equal(log_lists(s.registry->log, set->log, 1, &list, &n, NULL),
                     STATUS_OK);
    assert_int_equal(log_retire(s.registry->log, set->log, &list, 1, 0, NULL),
                     STATUS_OK);
    latest(set, false, MIB);
    assert_int_equal(text.size, 0);

    set = sets_unborn(&s, "never");
    latest(set, false, MIB);
    assert_int_equal(text.size, 0);
}

static void
assert_latest_events(struct set *set, const char *lines)
{
    struct buf found;

    buf_init(&found, SIZE_MAX);
    latest(set, true, MIB);
    if (text.size > 0)
        channel_lines(&found, buf_slice(&text));
    assert_true(slice_is(buf_slice(&found), lines));
    buf_fini(&found);
}

#define CREATED(set) "created capabilitylist /sets/" set "/capabilitylist.xml\n"

/* The time between two rounds. */
#define ROUND_US 1000000

#define SOURCE "updated description /.well-known/resourcesync\n"

/* of a framework channel, the last round with events for it,
 * however many others there were since; also found in the next process. */
TEST(is_the_last_round_that_told_something_on_the_channel)
{
    struct event event = {
        .change = CHANGE_UPDATED,
        .capability = CAP_CAPABILITYLIST,
        .loc = SLICE(SETS_URL "/sets/other/capabilitylist.xml"),
    };
    struct set *demo = post_each(1, 5);

    channel_last(&s);
    assert_latest_events(demo, CREATED("demo") SOURCE);
    clock_pass_us(ROUND_US);
    sets_post(&s, "other", 1, 1);
    channel_last(&s);
    assert_latest_events(demo, SOURCE);
    assert_latest_events(sets_find(&s, "other"), CREATED("other") SOURCE);
    event.set = sets_find(&s, "other");
    clock_pass_us(ROUND_US);
    channel_add(&s, &event, 3000); /* more than are looked at at once */
    channel_last(&s);
    assert_latest_events(demo, SOURCE);
    stage_restart();
    demo = sets_find(&s, "demo");
    assert_latest_events(demo, SOURCE);
    assert_int_equal(framework_event_last(demo), 4);
    assert_latest_events(demo, SOURCE);
    clock_pass_us(ROUND_US);
    sets_rotate(&s, "demo");
    channel_last(&s);
    assert_latest_events(
        demo, "updated changelist /sets/demo/changes/000000000001.xml"
              " < /sets/demo/changelist.xml\n"
              "created changelist /sets/demo/changes/000000000002.xml"
              " < /sets/demo/changelist.xml\n"
              "created changelist-archive /sets/demo/changelist-archive.xml\n"
              "updated capabilitylist /sets/demo/capabilitylist.xml\n");
}

/* Entries of `text`. */
static unsigned
count_entries(void)
{
    struct slice rest = buf_slice(&text);
    unsigned n = 0;

    for (const char *at; (at = memmem(rest.data, rest.size, "<url>", 5)); n++)
        rest = (struct slice){at + 5, rest.size - (size_t)(at + 5 - rest.data)};
    return n;
}

/* the same in the next process, however its batches hold the entries:
 * the clock stands still, so that no round has a gap before it, and one message
 * covers LATEST_MESSAGE_ROUND_MAX entries of them. */
TEST(is_the_same_where_rounds_have_no_gap_between_them)
{
    struct event event = {
        .change = CHANGE_UPDATED,
        .capability = CAP_CAPABILITYLIST,
        .loc = SLICE(SETS_URL "/sets/demo/capabilitylist.xml"),
    };

    event.set = post_each(1, 1);
    channel_add(&s, &event, 5);
    channel_last(&s);
    latest(event.set, true, MIB);
    stage_restart();
    event.set = sets_find(&s, "demo");
    assert_is_text_of(event.set, true, MIB);

    channel_add(&s, &event, LATEST_MESSAGE_ROUND_MAX);
    channel_last(&s);
    latest(event.set, true, MIB);
    assert_int_equal(count_entries(), LATEST_MESSAGE_ROUND_MAX);
    stage_restart();
    assert_is_text_of(sets_find(&s, "demo"), true, MIB);
}
