/* Messages of a broker of messages: whose they are, what they call themselves,
 * and in which order they are kept. */
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "broker/sets/alter.h"
#include "broker/sets/message.h"
#include "tests/support/describe.h"
#include "tests/unit/sets/ingests.h"

#define EPOCH "0123456789abcdef"
#define VIA   "via:" EPOCH

static const enum message_form forms[] = {MESSAGE_XML, MESSAGE_JSON};

static const char *const types[] = {[MESSAGE_XML] = XML, [MESSAGE_JSON] = JSON};

/* A message on its way, and what it came to. */
struct delivery {
    struct ingest *ingest;
    sem_t is_done;
    bool is_answered; /* is_done was posted before ingest_end returned */
    struct sets_outcome outcome;
};

static void
on_done(struct ingest *ingest, void *user)
{
    struct delivery *d = user;

    (void)ingest;
    sem_post(&d->is_done);
}

static void
begin(struct delivery *d, struct sets *s, const char *name, const char *type)
{
    memset(d, 0, sizeof(*d));
    sem_init(&d->is_done, 0, 0);
    assert_int_equal(ingest_begin(&d->ingest, s->registry, slice_of(name),
                                  slice_of(type), 0, &d->outcome.why),
                     STATUS_OK);
    ingest_take_message(d->ingest);
}

static enum status
set_key(struct delivery *d, const char *text)
{
    struct key key;

    assert_int_equal(key_read(slice_of(text), &key, NULL), STATUS_OK);
    return ingest_set_key(d->ingest, &key, &d->outcome.why);
}

static void
feed(struct delivery *d, struct slice body)
{
    d->outcome.rc = ingest_feed(d->ingest, body, &d->outcome.why);
    if (!d->outcome.rc)
        d->outcome.rc = ingest_end(d->ingest, on_done, d, &d->outcome.why);
    d->is_answered = sem_trywait(&d->is_done) == 0;
}

/* Waits for the outcome, unless it was refused. */
static struct sets_outcome
end(struct delivery *d, struct sets *s)
{
    struct sets_outcome *o = &d->outcome;

    log_wake(registry_log(s->registry));
    if (!o->rc) {
        const struct post *post = ingest_post(d->ingest);

        if (!d->is_answered)
            sem_wait(&d->is_done);
        o->rc = post->status;
        o->why = post->why;
        o->first = post->first;
        o->last = post->last;
    }
    ingest_free(d->ingest);
    sem_destroy(&d->is_done);
    return *o;
}

static struct sets_outcome
deliver(struct sets *s, const char *name, const char *type, struct slice body)
{
    struct delivery d;

    begin(&d, s, name, type);
    feed(&d, body);
    return end(&d, s);
}

static struct sets_outcome
deliver_json(struct sets *s, const char *name, const char *body)
{
    return deliver(s, name, JSON, slice_of(body));
}

/* All of the set, as it tells it. */
static void
tell(struct buf *to, struct sets *s, const char *name, enum message_form form)
{
    const struct message_wish wish = {
        .set = sets_find(s, name),
        .form = form,
        .upto = UINT64_MAX,
        .max_bytes = (size_t)1 << 20,
        .patience = LOG_DISK,
    };
    uint64_t last = 0;

    buf_clear(to);
    assert_int_equal(message_write(to, &wish, &last, NULL), STATUS_OK);
    assert_int_equal(last, sets_head(s, name).last);
}

/* From one set to another. */
static struct sets_outcome
hand_on(struct sets *s, const char *from, const char *to,
        enum message_form form)
{
    struct sets_outcome o;
    struct buf message;

    buf_init(&message, SIZE_MAX);
    tell(&message, s, from, form);
    o = deliver(s, to, types[form], buf_slice(&message));
    buf_fini(&message);
    return o;
}

/* What a set's entries say, and when they say it was: the time they had where
 * they come from is that of the source here. */
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
told_by(struct sets *s, const char *name, const char *tag)
{
    struct told told = {.tag = tag};
    struct reader *reader;
    struct buf message;

    buf_init(&told.text, SIZE_MAX);
    buf_init(&message, SIZE_MAX);
    tell(&message, s, name, MESSAGE_XML);
    reader = reader_new(format_of(SLICE(XML)), READER_MESSAGE, SIZE_MAX,
                        on_told, &told);
    assert_int_equal(reader_feed(reader, buf_slice(&message), NULL), STATUS_OK);
    assert_int_equal(reader_end(reader, NULL), STATUS_OK);
    reader_free(reader);
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
count_tag(struct sets *s, const char *name, const char *tag)
{
    struct told told = told_by(s, name, NULL);
    size_t n = count(buf_slice(&told.text), tag);

    buf_fini(&told.text);
    return n;
}

/* Whatever a broker like this one tells of an entry, the set that takes it in
 * tells as well: and where it comes from. */
static void
takes_what_a_broker_tells_as_it_is(void **state)
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
    struct sets s;

    ingests_open(&s, state);
    assert_int_equal(ingests_post(&s, JSON, entries).rc, STATUS_OK);
    for (size_t i = 0; i < 2; i++) {
        const char *name = i == 0 ? "xml" : "json";
        struct sets_outcome o = hand_on(&s, "demo", name, forms[i]);
        struct told before = told_by(&s, "demo", NULL), after;
        char tag[] = VIA;

        assert_string_equal(o.why.text, "");
        assert_int_equal(o.rc, STATUS_OK);
        assert_int_equal(o.last, 3);
        memcpy(tag + 4, sets_head(&s, "demo").epoch, EPOCH_SIZE);
        after = told_by(&s, name, tag);
        buf_add(&before.text, "", 1);
        buf_add(&after.text, "", 1);
        assert_string_equal(before.text.data, after.text.data);
        buf_fini(&before.text);
        buf_fini(&after.text);
    }
    ingests_assert_budget(&s);
    sets_close(&s);
}

/* Sets that tell each other, in whichever ring: what one has told comes back to
 * it, and ends there. */
static void
nothing_goes_round_in_circles(void **state)
{
    struct sets s;

    ingests_open(&s, state);
    for (size_t i = 0; i < 2; i++) {
        enum message_form form = forms[i];
        const char *const names[2][3] = {{"a", "b", "c"}, {"d", "e", "f"}};
        const char *a = names[i][0], *b = names[i][1], *c = names[i][2];
        struct sets_outcome o;

        sets_post(&s, a, 1, 3);
        assert_int_equal(hand_on(&s, a, b, form).last, 3);
        assert_int_equal(hand_on(&s, b, c, form).last, 3);
        assert_int_equal(count_tag(&s, c, "via:"), 6); /* from a, and b */

        o = hand_on(&s, c, a, form);
        assert_int_equal(o.rc, STATUS_OK);
        assert_int_equal(o.first, 0);
        assert_int_equal(o.last, 0);
        assert_int_equal(hand_on(&s, b, a, form).last, 0);
        assert_int_equal(hand_on(&s, a, a, form).last, 0);
        assert_int_equal(sets_head(&s, a).last, 3);

        /* What b has of its own goes to a, and does not come back. */
        sets_post(&s, b, 7, 1);
        o = hand_on(&s, b, a, form);
        assert_int_equal(o.first, 4);
        assert_int_equal(o.last, 4);
        o = hand_on(&s, a, b, form);
        assert_int_equal(o.last - o.first + 1, 3);
    }
    ingests_assert_budget(&s);
    sets_close(&s);
}

/* An entry is marked once, whoever has marked it; and who tells no epoch marks
 * nothing. */
static void
marks_an_entry_once(void **state)
{
#define TAGGED(tags)                                                          \
    "{\"loc\":\"http://example.com/1\",\"change\":\"updated\",\"tags\":" tags \
    "}"
    struct sets s;

    ingests_open(&s, state);
    assert_int_equal(
        deliver_json(
            &s, "demo",
            "{\"epoch\":\"" EPOCH
            "\",\"changes\":[" TAGGED("[\"" VIA "\",\"x\"]") "," TAGGED(
                "[\"x\"]") "," TAGGED("[]") "," TAGGED("[\"" VIA "0\"]") "]}")
            .last,
        4);
    assert_int_equal(count_tag(&s, "demo", "tags=[" VIA " x]"), 1);
    assert_int_equal(count_tag(&s, "demo", "tags=[x " VIA "]"), 1);
    assert_int_equal(count_tag(&s, "demo", "tags=[" VIA "]"), 1);
    assert_int_equal(count_tag(&s, "demo", "tags=[" VIA "0 " VIA "]"), 1);
    assert_int_equal(deliver_json(&s, "demo", ENTRY("2")).last, 5);
    assert_int_equal(
        deliver_json(&s, "demo", "{\"changes\":[" ENTRY("3") "]}").last, 6);
    assert_int_equal(count_tag(&s, "demo", "via:"), 5);
    ingests_assert_budget(&s);
    sets_close(&s);
#undef TAGGED
}

/* Whose entries they are is known before they are taken, or nothing is. */
static void
refuses_what_does_not_say_in_time_whose_it_is(void **state)
{
    struct sets_outcome o;
    struct sets s;

    ingests_open(&s, state);
    o = deliver_json(&s, "demo",
                     "{\"changes\":[" ENTRY("1") "],\"epoch\":\"" EPOCH "\"}");
    assert_int_equal(o.rc, STATUS_INVALID);
    assert_string_equal(o.why.text,
                        "epoch: behind the changes, not before them");
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
    ingests_assert_budget(&s);
    sets_close(&s);
}

/* A body with one entry, whose fragment is about as long. */
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

/* The mark is part of the entry: where it has no room, that is said. */
static void
refuses_an_entry_that_has_no_room_for_its_mark(void **state)
{
    size_t size = 262000, needed = 0, most = 0;
    struct sets_outcome o;
    struct sets s;
    struct buf b;

    ingests_open(&s, state);
    buf_init(&b, SIZE_MAX);
    write_large(&b, NULL, size);
    o = deliver(&s, "demo", JSON, buf_slice(&b));
    assert_int_equal(o.rc, STATUS_INVALID);
    assert_int_equal(sscanf(o.why.text,
                            "the entry needs %zu bytes of XML, more than %zu",
                            &needed, &most),
                     2);
    size -= needed - most;
    write_large(&b, EPOCH, size);
    o = deliver(&s, "demo", JSON, buf_slice(&b));
    assert_int_equal(o.rc, STATUS_INVALID);
    assert_int_equal(o.why.entry, 1);
    assert_int_equal(
        strncmp(o.why.text, "with the tag \"" VIA "\" the entry needs ", 50),
        0);
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
    write_large(&b, NULL, size);
    assert_int_equal(deliver(&s, "demo", JSON, buf_slice(&b)).last, 1);
    ingests_assert_budget(&s);
    buf_fini(&b);
    sets_close(&s);
}

/* Where nothing is left to be committed nothing is waited for, and no set
 * begins. */
static void
answers_at_once_where_there_is_nothing_to_commit(void **state)
{
    static const char *const bodies[] = {
        "{\"set\":\"x\",\"epoch\":\"" EPOCH "\",\"after\":3,\"last\":3,"
        "\"changes\":[]}",
        "[]",
        "{\"id\":\"k\",\"changes\":[]}",
    };
    struct delivery d, again;
    struct sets s;

    ingests_open(&s, state);
    for (size_t i = 0; i < 3; i++) {
        struct post_line line = {true};

        begin(&d, &s, "demo", JSON);
        ingest_join(d.ingest, &line);
        assert_int_equal(set_key(&d, "key"), STATUS_OK);
        feed(&d, slice_of(bodies[i]));
        assert_int_equal(d.outcome.rc, STATUS_OK);
        assert_true(d.is_answered);
        assert_null(ingest_set(d.ingest));

        /* It is at work no longer. */
        begin(&again, &s, "demo", JSON);
        assert_int_equal(set_key(&again, "key"), STATUS_OK);
        ingest_free(again.ingest);
        assert_int_equal(end(&d, &s).last, 0);
    }
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
    ingests_assert_budget(&s);
    sets_close(&s);
}

/* What a message calls itself is the key of its post. */
static void
keeps_a_message_with_an_id_once(void **state)
{
#define MESSAGE(n) "{\"changes\":[" ENTRY(n) "],\"id\":\"k\"}"
    struct sets_outcome o;
    struct sets s;

    ingests_open(&s, state);
    for (int i = 0; i < 2; i++)
        assert_int_equal(deliver_json(&s, "demo", MESSAGE("1")).first, 1);
    /* The same entries under the same name, in another form of it. */
    assert_int_equal(
        deliver_json(&s, "demo",
                     "{\"id\":\"k\",\"loc\":\"http://example.com/1\","
                     "\"change\":\"updated\"}")
            .last,
        1);
    o = deliver_json(&s, "demo", MESSAGE("2"));
    assert_int_equal(o.rc, STATUS_INVALID);
    assert_non_null(strstr(o.why.text, "\"k\""));
    assert_int_equal(sets_head(&s, "demo").last, 1);

    /* The digest counts entries, not what was passed over. */
    assert_int_equal(
        deliver_json(&s, "demo", "{\"id\":4,\"changes\":[" ENTRY("4") "]}")
            .last,
        2);
    assert_int_equal(deliver_json(&s, "demo",
                                  "{\"id\":\"4\",\"changes\":[" ENTRY(
                                      "4") "," ENTRY("4") "]}")
                         .rc,
                     STATUS_INVALID);
    ingests_assert_budget(&s);
    sets_close(&s);
}

/* A key that comes with it goes before what it calls itself. */
static void
prefers_the_key_that_it_was_given(void **state)
{
    struct delivery d;
    struct sets s;

    ingests_open(&s, state);
    for (int i = 0; i < 2; i++) {
        begin(&d, &s, "demo", JSON);
        assert_int_equal(set_key(&d, i == 0 ? "one" : "two"), STATUS_OK);
        feed(&d, SLICE(MESSAGE("1")));
        assert_int_equal(end(&d, &s).first, 1 + i);
    }
    assert_int_equal(deliver_json(&s, "demo", MESSAGE("2")).last, 3);
    sets_close(&s);
}

/* Its name is known at its end: then it may turn out that it is at work. */
static void
says_at_its_end_that_it_is_at_work(void **state)
{
    struct sets_outcome o;
    struct delivery first;
    struct sets s;

    ingests_open(&s, state);
    begin(&first, &s, "demo", JSON);
    assert_int_equal(set_key(&first, "k"), STATUS_OK);
    o = deliver_json(&s, "demo", MESSAGE("1"));
    assert_int_equal(o.rc, STATUS_RUNNING);
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
    feed(&first, SLICE(MESSAGE("1")));
    assert_int_equal(end(&first, &s).last, 1);
    assert_int_equal(deliver_json(&s, "demo", MESSAGE("1")).last, 1);
    ingests_assert_budget(&s);
    sets_close(&s);
}

/* What is behind a message that was not kept is not kept before it. */
static void
keeps_nothing_in_a_broken_line(void **state)
{
    struct post_line line = {true};
    struct delivery d;
    struct sets s;

    ingests_open(&s, state);
    for (int i = 0; i < 2; i++) {
        struct sets_outcome o;

        begin(&d, &s, "demo", JSON);
        ingest_join(d.ingest, &line);
        feed(&d, SLICE(MESSAGE("1")));
        o = end(&d, &s);
        assert_int_equal(o.rc, i == 0 ? STATUS_BUSY : STATUS_OK);
        assert_int_equal(o.last, i);
        line.is_broken = false;
    }
    ingests_assert_budget(&s);
    sets_close(&s);
}

/* A set that is removed while messages for it are on their way. */
struct removal {
    struct sets sets;
    struct delivery before, after;
    sem_t is_held, may_go;
    bool is_removed;
};

/* Holds the log thread. */
static void
hold(struct ingest *ingest, void *user)
{
    struct removal *r = user;

    (void)ingest;
    sem_post(&r->is_held);
    sem_wait(&r->may_go);
}

/* Log thread: everybody may know that it was removed. */
static void
on_changed(void *user)
{
    struct removal *r = user;

    if (r->is_removed)
        return;
    r->is_removed = true;
    feed(&r->after, SLICE(ENTRY("2")));
}

static void
on_removed(struct alteration *alteration, void *user)
{
    (void)user;
    alter_free(alteration);
}

/* It begins anew with what came first, not with what was read first for the new
 * one. */
static void
keeps_the_order_when_the_set_is_removed(void **state)
{
    struct removal r = {.is_removed = false};
    struct registry_options options = {
        .config = &r.sets.config,
        .public_url = SETS_URL,
        .on_changed = on_changed,
        .user = &r,
    };
    struct post_line line = {false};
    struct delivery held;

    sets_configure(&r.sets, tempdir_path(state));
    assert_int_equal(registry_open(&r.sets.registry, &options, NULL),
                     STATUS_OK);
    sem_init(&r.is_held, 0, 0);
    sem_init(&r.may_go, 0, 0);
    sets_post(&r.sets, "demo", 1, 3);
    begin(&held, &r.sets, "other", JSON);
    begin(&r.before, &r.sets, "demo", JSON);
    begin(&r.after, &r.sets, "demo", JSON);
    ingest_join(r.before.ingest, &line);
    ingest_join(r.after.ingest, &line);

    assert_int_equal(ingest_feed(held.ingest, SLICE(ENTRY("1")), NULL),
                     STATUS_OK);
    assert_int_equal(ingest_end(held.ingest, hold, &r, NULL), STATUS_OK);
    log_wake(registry_log(r.sets.registry));
    sem_wait(&r.is_held);
    assert_int_equal(
        alter_remove(sets_find(&r.sets, "demo"), on_removed, NULL, NULL),
        STATUS_OK);
    feed(&r.before, SLICE(ENTRY("1")));
    sem_post(&r.may_go);

    assert_int_equal(end(&r.before, &r.sets).first, 1);
    assert_int_equal(end(&r.after, &r.sets).first, 2);
    assert_true(r.is_removed);
    assert_false(line.is_broken);
    ingest_free(held.ingest);
    sem_destroy(&held.is_done);
    ingests_assert_budget(&r.sets);
    sets_close(&r.sets);
    sem_destroy(&r.is_held);
    sem_destroy(&r.may_go);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, tempdir_setup, tempdir_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(takes_what_a_broker_tells_as_it_is),
        TEST(nothing_goes_round_in_circles),
        TEST(marks_an_entry_once),
        TEST(refuses_what_does_not_say_in_time_whose_it_is),
        TEST(refuses_an_entry_that_has_no_room_for_its_mark),
        TEST(answers_at_once_where_there_is_nothing_to_commit),
        TEST(keeps_a_message_with_an_id_once),
        TEST(prefers_the_key_that_it_was_given),
        TEST(says_at_its_end_that_it_is_at_work),
        TEST(keeps_nothing_in_a_broken_line),
        TEST(keeps_the_order_when_the_set_is_removed),
    };

    return cmocka_run_group_tests_name("ingest, messages", tests, NULL, NULL);
}
