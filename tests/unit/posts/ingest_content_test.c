/* Posts to a set that keeps content inline: the check of the content is asked,
 * and its answer decides the post. */
#include <stdio.h>
#include <string.h>

#include "tests/support/posts.h"
#include "tests/test.h"
#include "tests/unit/posts/ingests.h"

#define SHA256(n) \
    "000000000000000000000000000000000000000000000000000000000000000" n
#define TOLD(n)                               \
    "{\"loc\":\"http://example.com/?a=1&b=" n \
    "\",\"change\":\"updated\",\"hash\":{\"sha-256\":\"" SHA256(n) "\"}}"
#define DELETED "{\"loc\":\"http://example.com/d\",\"change\":\"deleted\"}"

/* Gives the answer in `rc`, on the thread that asks. */
static struct checker {
    enum status rc;
    unsigned asked;
    char content[500];
    bool is_held;

    unsigned released;
    uint64_t last; /* of the release */
} checker;

static void
release(struct content_pin *pin, uint64_t last)
{
    assert_ptr_equal(pin, &checker);
    checker.released++;
    checker.last = last;
}

static enum status
check(struct ingest *ingest, void *user, struct problem *why)
{
    struct problem reason = {"not there"};
    const struct ingest_content *content = (const void *)ingest->contents.data;
    size_t n = ingest->contents.size / sizeof(*content), at = 0;

    (void)user;
    (void)why;
    checker.asked++;
    checker.content[0] = '\0';
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(
            checker.content + at, sizeof(checker.content) - at, "%u %.*s %u|",
            (unsigned)content[i].entry,
            SLICE_ARG(fragment_loc(
                slice_from(buf_slice(&ingest->post.bytes), content[i].loc))),
            content[i].digest.bytes[DIGEST_SIZE - 1]);
    if (checker.is_held)
        ingest_hold(ingest, sets_find(&s, "demo"), (void *)&checker, release);
    ingest_check_end(ingest, checker.rc, &reason);
    log_wake(s.registry->log);
    return STATUS_OK;
}

static int
open_checked(void **state)
{
    if (stage_configure(state))
        return -1;
    s.config.content = CONTENT_INLINE;
    sets_open(&s);
    memset(&checker, 0, sizeof(checker));
    s.posts.check = check;
    s.posts.check_user = &checker;
    return 0;
}

FIXTURE(open_checked, ingests_close);

TEST(an_entry_without_sha256_is_refused_at_once)
{
    struct sets_outcome o;

    o = ingests_post(JSON, "[" DELETED "," ENTRY("1") "]");

    assert_int_equal(o.rc, STATUS_INVALID);
    assert_int_equal(o.why.entry, 2);
    assert_non_null(
        strstr(o.why.text, "the set \"demo\" keeps content inline"));
    assert_non_null(strstr(o.why.text, "\"http://example.com/1\""));
    assert_int_equal(checker.asked, 0);
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
}

TEST(what_is_told_is_looked_at_before_the_log_has_it)
{
    struct sets_outcome o;

    checker.rc = STATUS_INVALID;
    o = ingests_post(JSON, TOLD("1"));
    assert_int_equal(o.rc, STATUS_INVALID);
    assert_string_equal(o.why.text, "not there");
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));

    checker.rc = STATUS_OK;
    o = ingests_post(JSON, "[" DELETED "," TOLD("2") "," TOLD("3") "]");
    assert_int_equal(o.rc, STATUS_OK);
    assert_int_equal(o.last, 3);
    assert_string_equal(checker.content,
                        "2 http://example.com/?a=1&amp;b=2 2|"
                        "3 http://example.com/?a=1&amp;b=3 3|");
    assert_int_equal(checker.asked, 2);
}

TEST(what_was_found_is_held_until_the_log_has_answered)
{
    struct sets_outcome o;

    assert_int_equal(ingests_post(JSON, DELETED).rc, STATUS_OK);
    assert_int_equal(checker.asked, 0);
    checker.is_held = true;
    o = ingests_post(JSON, TOLD("1"));
    assert_int_equal(o.rc, STATUS_OK);
    assert_int_equal(checker.released, 1);
    assert_int_equal(checker.last, 2);

    checker.rc = STATUS_INVALID;
    o = ingests_post(JSON, TOLD("2"));
    assert_int_equal(o.rc, STATUS_INVALID);
    assert_int_equal(checker.released, 2);
    assert_int_equal(checker.last, 0);
}

static enum status
fill(struct change *change, void *user, struct problem *why)
{
    (void)why;
    if (change->kind != CHANGE_DELETED)
        change->length = (*(uint64_t *)user)++;
    return STATUS_OK;
}

static void
never(struct ingest *ingest, void *user)
{
    (void)ingest;
    *(bool *)user = true;
}

/* A post with its bytes completes the entries, and is not checked. */
TEST(an_entry_is_completed_before_it_is_kept)
{
    struct head head;
    struct ingest *in;
    struct batch *b;
    uint64_t length = 41;
    bool is_done = false;
    struct slice text;

    assert_int_equal(ingests_post(JSON, DELETED).rc, STATUS_OK);
    assert_int_equal(
        ingest_begin(&in, &s.posts, SLICE("demo"), SLICE(JSON), 0, NULL),
        STATUS_OK);
    in->fill = fill;
    in->fill_user = &length;
    ingest_hold(in, sets_find(&s, "demo"), (void *)&checker, release);
    assert_int_equal(
        ingest_feed(in, SLICE("[" DELETED "," ENTRY("1") "]"), NULL),
        STATUS_OK);
    assert_int_equal(ingest_read_end(in, NULL), STATUS_OK);
    assert_int_equal(ingest_end(in, never, &is_done, NULL), STATUS_OK);
    log_stop(s.registry->log);

    assert_true(is_done);
    assert_int_equal(checker.asked, 0);
    assert_int_equal(checker.last, 3);
    head = sets_head(&s, "demo");
    assert_int_equal(head.last, 3);
    assert_int_equal(log_read(s.registry->log, sets_find(&s, "demo")->log, 2,
                              LOG_DISK, &b, NULL),
                     STATUS_OK);
    text = batch_slice(b, 2, 3);
    assert_non_null(memmem(text.data, text.size, "length=\"41\"", 11));
    batch_unref(b);
    ingest_free(in);
    assert_int_equal(checker.released, 1);
}

static void
remove_demo(void)
{
    struct posted p;

    posts_begin_act(&p, ACT_REMOVAL, sets_find(&s, "demo")->log);
    assert_int_equal(log_submit(s.registry->log, &p.post, NULL), STATUS_OK);
    assert_int_equal(posts_wait(&p), STATUS_OK);
    posts_end(&p);
}

/* The content went with the set: another one of that name has none of it. */
TEST(content_of_a_set_that_was_removed_is_not_told_of_in_another_one)
{
    struct ingest *in;
    bool is_done = false;
    uint64_t length = 1;

    assert_int_equal(ingests_post(JSON, DELETED).rc, STATUS_OK);
    assert_int_equal(
        ingest_begin(&in, &s.posts, SLICE("demo"), SLICE(JSON), 0, NULL),
        STATUS_OK);
    in->fill = fill;
    in->fill_user = &length;
    ingest_hold(in, sets_find(&s, "demo"), (void *)&checker, release);
    assert_int_equal(ingest_feed(in, SLICE(ENTRY("1")), NULL), STATUS_OK);
    remove_demo();
    assert_int_equal(ingest_end(in, never, &is_done, NULL), STATUS_OK);
    log_stop(s.registry->log);

    assert_true(is_done);
    assert_int_equal(in->post.status, STATUS_GONE);
    assert_int_equal(checker.released, 1);
    assert_int_equal(checker.last, 0);
    ingest_free(in);
}

/* Unchecked posts would overtake those that wait for the check. */
TEST(posts_of_a_line_are_all_looked_at)
{
    struct post_line line = {false};
    struct ingest *in;
    bool is_done = false;

    assert_int_equal(
        ingest_begin(&in, &s.posts, SLICE("demo"), SLICE(JSON), 0, NULL),
        STATUS_OK);
    in->post.line = &line;
    assert_int_equal(ingest_feed(in, SLICE(DELETED), NULL), STATUS_OK);
    assert_int_equal(ingest_end(in, never, &is_done, NULL), STATUS_OK);
    log_stop(s.registry->log);

    assert_true(is_done);
    assert_int_equal(checker.asked, 1);
    assert_string_equal(checker.content, "");
    ingest_free(in);
}
