/* Messages of a broker of messages: their contents, the log of their entries,
 * and the logs that those have passed. */
#include <stdio.h>
#include <string.h>

#include "broker/readers/message.h"
#include "tests/support/describe.h"
#include "tests/test.h"
#include "tests/unit/posts/arrivals.h"

#define VIA "via:" EPOCH

static const enum message_form forms[] = {MESSAGE_XML, MESSAGE_JSON};

static const char *const types[] = {[MESSAGE_XML] = XML, [MESSAGE_JSON] = JSON};

/* Writes a message with all entries of the set. */
static void
tell(struct buf *to, const char *name, enum message_form form)
{
    const struct message_wish wish = {
        .set = sets_find(&s, name),
        .form = form,
        .upto = UINT64_MAX,
        .max_bytes = (size_t)1 << 20,
        .patience = LOG_DISK,
    };
    uint64_t last = 0;

    buf_clear(to);
    assert_int_equal(message_write(to, &wish, &last, NULL), STATUS_OK);
    assert_int_equal(last, sets_head(&s, name).last);
}

/* From one set to another. */
static struct sets_outcome
hand_on(const char *from, const char *to, enum message_form form)
{
    struct sets_outcome o;
    struct buf message;

    buf_init(&message, SIZE_MAX);
    tell(&message, from, form);
    o = arrive(to, types[form], buf_slice(&message));
    buf_fini(&message);
    return o;
}

/* The entries of a set, and their times: the time at their origin is the
 * source's time here. */
struct told {
    struct buf text;
    const char *tag; /* which every entry has last, and is left out; or NULL */
};

static enum status
on_told(const struct change *change, void *user, struct problem *why)
{
    struct told *told = user;
    struct change c = *change;

    (void)why;
    if (told->tag) {
        size_t size = strlen(told->tag);

        assert_true(c.tags.size >= size);
        c.tags.size -= size;
        assert_memory_equal(c.tags.data + c.tags.size, told->tag, size);
        if (c.tags.size > 0)
            assert_int_equal(c.tags.data[--c.tags.size], ' ');
    }
    if (told->tag && c.source_us != DATETIME_NONE)
        c.datetime_us = c.source_us;
    c.source_us = DATETIME_NONE;
    describe(&told->text, &c);
    return STATUS_OK;
}

static struct told
told_by(const char *name, const char *tag)
{
    struct told told = {.tag = tag};
    struct input_reader *reader;
    struct buf message;

    buf_init(&told.text, SIZE_MAX);
    buf_init(&message, SIZE_MAX);
    tell(&message, name, MESSAGE_XML);
    reader = input_reader_new(format_of(SLICE(XML)), INPUT_MESSAGE, SIZE_MAX,
                              on_told, &told);
    assert_int_equal(input_reader_feed(reader, buf_slice(&message), NULL),
                     STATUS_OK);
    assert_int_equal(input_reader_end(reader, NULL), STATUS_OK);
    input_reader_free(reader);
    buf_fini(&message);
    return told;
}

static size_t
count(struct slice text, const char *what)
{
    const char *at = text.data, *end = text.data + text.size;
    size_t n = 0;

    while ((at = memmem(at, (size_t)(end - at), what, strlen(what)))) {
        at += strlen(what);
        n++;
    }
    return n;
}

/* How often the entries of a set have a tag. */
static size_t
count_tag(const char *name, const char *tag)
{
    struct told told = told_by(name, NULL);
    size_t n = count(buf_slice(&told.text), tag);

    buf_fini(&told.text);
    return n;
}

FIXTURE(stage_open, ingests_close);

/* A set that takes in an entry of another Tidings keeps every fact of it, and
 * adds where it comes from. */
TEST(takes_what_a_broker_tells_as_it_is)
{
    static const char entries[] =
        "[{\"loc\":\"http://example.com/\\u00e5?a=1&b=2\","
        "\"change\":\"updated\",\"datetime\":\"2020-04-01T18:10:00.25Z\","
        "\"lastmod\":\"2019\",\"hash\":{\"md5\":"
        "\"d41d8cd98f00b204e9800998ecf8427e\",\"sha-1\":"
        "\"da39a3ee5e6b4b0d3255bfef95601890afd80709\"},\"length\":3,"
        "\"type\":\"text/csv\",\"encoding\":\"gzip\",\"changefreq\":\"daily\","
        "\"priority\":0.5,\"tags\":[\"b\",\"a\"],\"links\":[{\"rel\":\"via\","
        "\"href\":\"http://example.com/b\",\"pri\":1,\"modified\":"
        "\"2026-04-01T18:10:00Z\",\"hash\":{\"md5\":"
        "\"d41d8cd98f00b204e9800998ecf8427e\"},\"length\":0,\"type\":\"a/b\","
        "\"encoding\":\"br\",\"attributes\":[{\"ns\":\"urn:x\",\"name\":\"n\","
        "\"value\":\"<\\t&\"}]}],\"attributes\":[{\"ns\":\"urn:y\","
        "\"name\":\"m\",\"value\":\"1\"}]},"
        "{\"loc\":\"http://example.com/c\",\"change\":\"deleted\"},"
        "{\"loc\":\"http://example.com/c\",\"change\":\"created\","
        "\"datetime\":\"2020-04-01T18:10:00Z\"}]"; /* too late: another time */

    assert_int_equal(ingests_post(JSON, entries).rc, STATUS_OK);
    for (size_t i = 0; i < 2; i++) {
        const char *name = i == 0 ? "xml" : "json";
        struct sets_outcome o = hand_on("demo", name, forms[i]);
        struct told before = told_by("demo", NULL), after;
        char tag[] = VIA;

        assert_string_equal(o.why.text, "");
        assert_int_equal(o.rc, STATUS_OK);
        assert_int_equal(o.last, 3);
        memcpy(tag + 4, sets_head(&s, "demo").epoch, EPOCH_SIZE);
        after = told_by(name, tag);
        buf_add(&before.text, "", 1);
        buf_add(&after.text, "", 1);
        assert_string_equal(before.text.data, after.text.data);
        buf_fini(&before.text);
        buf_fini(&after.text);
    }
}

/* Sets that feed each other in any ring: a set's own entry ends when it comes
 * back. */
TEST(nothing_goes_round_in_circles)
{
    for (size_t i = 0; i < 2; i++) {
        enum message_form form = forms[i];
        const char *const names[2][3] = {{"a", "b", "c"}, {"d", "e", "f"}};
        const char *a = names[i][0], *b = names[i][1], *c = names[i][2];
        struct sets_outcome o;

        sets_post(&s, a, 1, 3);
        assert_int_equal(hand_on(a, b, form).last, 3);
        assert_int_equal(hand_on(b, c, form).last, 3);
        assert_int_equal(count_tag(c, "via:"), 6); /* from a, and b */

        o = hand_on(c, a, form);
        assert_int_equal(o.rc, STATUS_OK);
        assert_int_equal(o.first, 0);
        assert_int_equal(o.last, 0);
        assert_int_equal(hand_on(b, a, form).last, 0);
        assert_int_equal(hand_on(a, a, form).last, 0);
        assert_int_equal(sets_head(&s, a).last, 3);

        /* The own entry of b goes to a, and does not come back. */
        sets_post(&s, b, 7, 1);
        o = hand_on(b, a, form);
        assert_int_equal(o.first, 4);
        assert_int_equal(o.last, 4);
        o = hand_on(a, b, form);
        assert_int_equal(o.last - o.first + 1, 3);
    }
}

/* An entry has one mark of a log, also if another broker added it; a message
 * without an epoch adds none. */
TEST(marks_an_entry_once)
{
#define TAGGED(tags)                                                          \
    "{\"loc\":\"http://example.com/1\",\"change\":\"updated\",\"tags\":" tags \
    "}"

    assert_int_equal(
        arrive_json(
            "demo",
            "{\"epoch\":\"" EPOCH
            "\",\"changes\":[" TAGGED("[\"" VIA "\",\"x\"]") "," TAGGED(
                "[\"x\"]") "," TAGGED("[]") "," TAGGED("[\"" VIA "0\"]") "]}")
            .last,
        4);
    assert_int_equal(count_tag("demo", "tags=[" VIA " x]"), 1);
    assert_int_equal(count_tag("demo", "tags=[x " VIA "]"), 1);
    assert_int_equal(count_tag("demo", "tags=[" VIA "]"), 1);
    assert_int_equal(count_tag("demo", "tags=[" VIA "0 " VIA "]"), 1);
    assert_int_equal(arrive_json("demo", ENTRY("2")).last, 5);
    assert_int_equal(arrive_json("demo", "{\"changes\":[" ENTRY("3") "]}").last,
                     6);
    assert_int_equal(count_tag("demo", "via:"), 5);
    assert_true(ingests_hold_nothing());
    sets_close(&s);
#undef TAGGED
}

/* A message must state its epoch before the first entry, or it is refused. */
TEST(refuses_what_does_not_say_in_time_whose_it_is)
{
    struct sets_outcome o;

    o = arrive_json("demo",
                    "{\"changes\":[" ENTRY("1") "],\"epoch\":\"" EPOCH "\"}");
    assert_int_equal(o.rc, STATUS_INVALID);
    assert_string_equal(o.why.text,
                        "epoch: behind the changes, not before them");
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
}

/* Writes a body with one entry; the fragment is about as long. */
static void
write_large(struct buf *to, const char *epoch, size_t size)
{
    buf_clear(to);
    BUF_ADD(to, "{");
    if (epoch)
        buf_add_format(to, "\"epoch\":\"%s\",", epoch);
    BUF_ADD(to, "\"changes\":[{\"loc\":\"http://example.com/1\",\"change\":"
                "\"updated\",\"attributes\":[{\"ns\":\"urn:x\",\"name\":\"n\","
                "\"value\":\"");
    while (size-- > 0)
        BUF_ADD(to, "x");
    BUF_ADD(to, "\"}]}]}");
}

/* The mark is part of the entry: without room for it the message is refused
 * with that reason. */
TEST(refuses_an_entry_that_has_no_room_for_its_mark)
{
    size_t size = 262000, needed = 0, most = 0;
    struct sets_outcome o;
    struct buf b;

    buf_init(&b, SIZE_MAX);
    write_large(&b, NULL, size);
    o = arrive("demo", JSON, buf_slice(&b));
    assert_int_equal(o.rc, STATUS_INVALID);
    assert_int_equal(sscanf(o.why.text,
                            "the entry needs %zu bytes of XML, more than %zu",
                            &needed, &most),
                     2);
    size -= needed - most;
    write_large(&b, EPOCH, size);
    o = arrive("demo", JSON, buf_slice(&b));
    assert_int_equal(o.rc, STATUS_INVALID);
    assert_int_equal(o.why.entry, 1);
    assert_int_equal(
        strncmp(o.why.text, "with the tag \"" VIA "\" the entry needs ", 50),
        0);
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
    write_large(&b, NULL, size);
    assert_int_equal(arrive("demo", JSON, buf_slice(&b)).last, 1);
    buf_fini(&b);
}
