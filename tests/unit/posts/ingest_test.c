/* Posts are accepted or refused as a whole. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/posts/ingests.h"

/* All fragments of the set; *last is its last seq. */
static void
read_all(const char *name, struct buf *to)
{
    struct set *set = sets_find(&s, name);
    uint64_t after = 0;

    buf_clear(to);
    for (;;) {
        struct batch *b;

        assert_int_equal(
            log_read(s.registry->log, set->log, after, LOG_DISK, &b, NULL),
            STATUS_OK);
        if (!b)
            return;
        buf_add_slice(to, batch_slice(b, after, b->last));
        after = b->last;
        batch_unref(b);
    }
}

static size_t
count(const struct buf *text, const char *what)
{
    const char *at = text->data, *end = text->data + text->size;
    size_t n = 0;

    while ((at = memmem(at, (size_t)(end - at), what, strlen(what)))) {
        at += strlen(what);
        n++;
    }
    return n;
}

FIXTURE(stage_open, ingests_close);

/* Design section 4: XML, and a JSON object or array, become entries in order.
 */
TEST(takes_changes_in_every_format)
{
    struct sets_outcome o;
    struct buf all;

    buf_init(&all, SIZE_MAX);
    o = ingests_post(JSON, ENTRY("1"));
    assert_int_equal(o.rc, STATUS_OK);
    assert_int_equal(o.first, 1);
    o = ingests_post(JSON "; charset=utf-8", "[" ENTRY("2") "," ENTRY("3") "]");
    assert_int_equal(o.first, 2);
    assert_int_equal(o.last, 3);
    o = ingests_post(XML, XML_HEAD XML_ENTRY("4") XML_ENTRY("5") "</urlset>");
    assert_int_equal(o.rc, STATUS_OK);
    assert_int_equal(o.last, 5);
    read_all("demo", &all);
    assert_int_equal(count(&all, "<url>"), 5);
    for (char n = '1'; n <= '5'; n++) {
        char loc[] = "<loc>http://example.com/0</loc>";

        loc[24] = n;
        assert_int_equal(count(&all, loc), 1);
    }
    buf_fini(&all);
}

/* A body may come in any pieces. */
TEST(does_not_care_how_a_body_is_cut)
{
    static const char xml[] =
        XML_HEAD XML_ENTRY("a") XML_ENTRY("%C3%A9") "</urlset>";
    static const char json[] = "[" ENTRY("a") "," ENTRY("\xc3\xa9") "]";

    for (size_t step = 1; step < 10; step += 2) {
        assert_int_equal(
            sets_post_body(&s, "demo", XML, slice_of(xml), step).rc, STATUS_OK);
        assert_int_equal(
            sets_post_body(&s, "demo", JSON, slice_of(json), step).rc,
            STATUS_OK);
    }
    assert_int_equal(sets_head(&s, "demo").last, 20);
}

static void
assert_refused(const char *type, const char *body, enum status rc)
{
    struct sets_outcome o = ingests_post(type, body);

    assert_int_equal(o.rc, rc);
    assert_true(o.why.text[0] != '\0');
}

/* Design rule 5: bad input is refused whole, leaves no entry, no set and
 * nothing reserved. */
TEST(refuses_a_bad_post_whole)
{
    assert_refused(JSON, "[" ENTRY("1") "," ENTRY("2") ",{}]", STATUS_INVALID);
    assert_refused(JSON, "[" ENTRY("1") "," ENTRY("2"), STATUS_MALFORMED);
    assert_refused(XML, XML_HEAD XML_ENTRY("1") "<url/></urlset>",
                   STATUS_INVALID);
    assert_refused(XML, XML_HEAD XML_ENTRY("1"), STATUS_MALFORMED);
    assert_refused(XML, "", STATUS_MALFORMED);
    assert_refused(JSON, "", STATUS_MALFORMED);
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));

    assert_int_equal(ingests_post(JSON, ENTRY("1")).first, 1);
    assert_refused(JSON, "[" ENTRY("2") ",{}]", STATUS_INVALID);
    assert_int_equal(sets_head(&s, "demo").last, 1);
}

/* A post without entries creates no set: one exists from its first entry on. */
TEST(refuses_a_post_without_entries)
{
    assert_refused(JSON, "[]", STATUS_INVALID);
    assert_refused(XML, XML_HEAD "</urlset>", STATUS_INVALID);
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
}

/* A problem names the entry at fault (design section 4). */
TEST(says_which_entry_is_at_fault)
{
    struct sets_outcome o;

    o = ingests_post(JSON, "[" ENTRY("1") "," ENTRY("2") ",{\"loc\":\"x\"}]");
    assert_int_equal(o.rc, STATUS_INVALID);
    assert_int_equal(o.why.entry, 3);
}

/* Design section 4: set names; 404 for one that no set can have. */
TEST(refuses_names_that_no_set_can_have)
{
    static const char *const bad[] = {"", "A", "-a", ".a", "a b", "a/b"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(
            sets_post_body(&s, bad[i], JSON, SLICE(ENTRY("1")), 0).rc,
            STATUS_NOT_FOUND);
}

/* Design section 4: 415 names the types that the broker reads. */
TEST(refuses_media_types_that_nobody_reads)
{
    struct sets_outcome o;

    o = ingests_post("text/plain", ENTRY("1"));
    assert_int_equal(o.rc, STATUS_UNSUPPORTED);
    assert_non_null(strstr(o.why.text, "application/xml, application/json"));
    assert_non_null(strstr(o.why.text, "\"text/plain\""));
    assert_int_equal(ingests_post("", ENTRY("1")).rc, STATUS_UNSUPPORTED);
    assert_int_equal(ingests_post("application/xml; charset=latin1", "").rc,
                     STATUS_UNSUPPORTED);
}

/* a Sitemap has at most 50,000 entries. Another format may have more:
 * the broker splits it. */
TEST(refuses_more_entries_than_a_document_has)
{
    struct sets_outcome o;
    struct buf body;

    buf_init(&body, SIZE_MAX);
    BUF_ADD(&body, XML_HEAD);
    for (int i = 0; i < 50000; i++)
        BUF_ADD(&body, XML_ENTRY("1"));
    BUF_ADD(&body, XML_ENTRY("2") "</urlset>");
    o = sets_post_body(&s, "demo", XML, buf_slice(&body), 65536);
    assert_int_equal(o.rc, STATUS_TOO_LARGE);
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
    assert_true(ingests_hold_nothing());

    buf_clear(&body);
    BUF_ADD(&body, "[");
    for (int i = 0; i < 50000; i++)
        BUF_ADD(&body, ENTRY("1") ",");
    BUF_ADD(&body, ENTRY("2") "]");
    o = sets_post_body(&s, "demo", JSON, buf_slice(&body), 65536);
    assert_int_equal(o.rc, STATUS_OK);
    assert_int_equal(o.last, 50001);
    buf_fini(&body);
}

static void
never(struct ingest *ingest, void *user)
{
    (void)ingest;
    *(bool *)user = true;
}

/* log.md, ending: once the log takes no more, a post is refused with
 * STATUS_STOPPED. */
TEST(refuses_posts_when_the_log_is_ending)
{
    struct problem why = {""};
    bool is_called = false;
    struct ingest *in;

    log_stop(s.registry->log);
    assert_int_equal(
        ingest_begin(&in, &s.posts, SLICE("demo"), SLICE(JSON), 100, NULL),
        STATUS_OK);
    assert_int_equal(ingest_feed(in, SLICE(ENTRY("1")), NULL), STATUS_OK);
    assert_int_equal(ingest_end(in, never, &is_called, &why), STATUS_STOPPED);
    assert_string_equal(why.text, "the broker is ending");
    assert_false(is_called);
    ingest_free(in);
}

#define THREADS 4
#define POSTS   25

struct poster {
    pthread_t id;
    unsigned number;
    bool is_wrong;
};

static void *
post_often(void *user)
{
    struct poster *p = user;
    char body[200];

    snprintf(body, sizeof(body), "[" ENTRY("t%u") "," ENTRY("t%u") "]",
             p->number, p->number);
    for (int i = 0; i < POSTS; i++) {
        bool is_bad = i % 5 == 4;
        struct sets_outcome o =
            sets_post_body(&s, i % 2 ? "odd" : "even", JSON,
                           is_bad ? SLICE("[{}]") : slice_of(body), 16);

        p->is_wrong |=
            is_bad ? o.rc != STATUS_INVALID : o.rc || o.last != o.first + 1;
    }
    return NULL;
}

/* Any number of posts at once: each is whole, none is mixed with another. */
TEST(takes_posts_from_many_threads)
{
    struct poster posters[THREADS];
    struct buf all;

    buf_init(&all, SIZE_MAX);
    for (unsigned i = 0; i < THREADS; i++) {
        posters[i] = (struct poster){.number = i};
        assert_int_equal(
            pthread_create(&posters[i].id, NULL, post_often, &posters[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(posters[i].id, NULL);
        assert_false(posters[i].is_wrong);
    }
    read_all("even", &all);
    assert_int_equal(count(&all, "<url>"), THREADS * 10 * 2);
    for (char n = '0'; n < '0' + THREADS; n++) {
        char loc[] = "/t0</loc>";

        loc[2] = n;
        assert_int_equal(count(&all, loc), 10 * 2);
    }
    buf_fini(&all);
}

static struct ingest *
begin_with_key(const char *key, enum status *rc)
{
    struct ingest *in = NULL;
    struct key k;

    assert_int_equal(
        ingest_begin(&in, &s.posts, SLICE("demo"), SLICE(JSON), 100, NULL),
        STATUS_OK);
    assert_int_equal(key_read(slice_of(key), &k, NULL), STATUS_OK);
    *rc = ingest_set_key(in, &k, NULL);
    return in;
}

/* The outcome of a repeat when the first post is answered. */
struct again {
    enum status rc;
    sem_t is_done;
};

static void
begin_again(struct ingest *in, void *user)
{
    struct again *a = user;

    ingest_free(begin_with_key("k", &a->rc));
    ingest_free(in);
    sem_post(&a->is_done);
}

/* A post with a key is at work from its headers until the log has answered; a
 * client that repeats it on the answer does not find it running.
 */
TEST(a_key_is_at_work_until_the_log_has_answered)
{
    struct again again = {.rc = STATUS_IO};
    struct ingest *first;
    enum status rc;

    sem_init(&again.is_done, 0, 0);
    first = begin_with_key("k", &rc);
    assert_int_equal(rc, STATUS_OK);
    ingest_free(begin_with_key("k", &rc));
    assert_int_equal(rc, STATUS_RUNNING);
    assert_int_equal(ingest_feed(first, SLICE(ENTRY("1")), NULL), STATUS_OK);
    ingest_free(begin_with_key("k", &rc));
    assert_int_equal(rc, STATUS_RUNNING);

    assert_int_equal(ingest_end(first, begin_again, &again, NULL), STATUS_OK);
    log_wake(s.registry->log);
    sem_wait(&again.is_done);
    assert_int_equal(again.rc, STATUS_OK);

    first = begin_with_key("k", &rc); /* and one that is cancelled */
    ingest_free(first);
    ingest_free(begin_with_key("k", &rc));
    assert_int_equal(rc, STATUS_OK);
    sem_destroy(&again.is_done);
}
