#include "broker/hub/topic.h"

#include "tests/test.h"
#include "tests/unit/hub_engine/engine.h"

static struct topic *
find(const char *url)
{
    struct topic *topic;
    struct problem why = {""};

    if (topic_find(&e.hub, slice_of(url), &topic, &why))
        fail_msg("%s", why.text);
    return topic;
}

static const char *
url_of(const struct topic *topic)
{
    static char text[600];
    struct buf url;

    buf_init(&url, sizeof(text));
    topic_write_url(&url, topic);
    snprintf(text, sizeof(text), "%.*s", (int)url.size, url.data);
    buf_fini(&url);
    return text;
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* each set has two topics. */
TEST(finds_the_two_topics_of_a_set)
{
    struct topic *changes, *framework;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    changes = find(SETS_URL "/sets/demo/notifications");
    framework = find(SETS_URL "/sets/demo/framework-notifications");
    assert_int_equal(changes->kind, TOPIC_CHANGES);
    assert_int_equal(framework->kind, TOPIC_FRAMEWORK);
    assert_string_equal(url_of(changes), SETS_URL "/sets/demo/notifications");
    assert_string_equal(url_of(framework),
                        SETS_URL "/sets/demo/framework-notifications");
    assert_ptr_equal(find(SETS_URL "/sets/demo/notifications"), changes);
    topic_release(changes);
    topic_release(framework);
    assert_true(list_is_empty(&e.hub.topics));
    engine_close();
}

/* W-026: spellings of the same URL are the same topic. */
TEST(compares_as_urls_are_compared)
{
    static const char *const spellings[] = {
        "HTTP://EXAMPLE.ORG/sets/demo/notifications",
        "http://example.org:80/sets/demo/notifications",
        "http://example.org/sets/%64emo/notifications",
        "http://example.org/sets/demo/%6eotifications",
    };
    struct topic *topic;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    topic = find(SETS_URL "/sets/demo/notifications");
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++)
        assert_ptr_equal(find(spellings[i]), topic);
    topic_release(topic);
    engine_close();
}

static void
assert_refused(const char *url, enum status rc, const char *part)
{
    struct problem why = {""};
    struct topic *topic;

    assert_int_equal(topic_find(&e.hub, slice_of(url), &topic, &why), rc);
    assert_null(topic);
    if (!strstr(why.text, part))
        fail_msg("\"%s\" does not say \"%s\"", why.text, part);
}

/* W-028, W-044: what is no topic is refused at once; one of our own URLs with
 * the topic that was meant, perhaps. */
TEST(says_what_to_subscribe_to_instead)
{
    static const char *const paths[] = {
        "/capabilitylist.xml",
        "/changelist.xml",
        "/stream",
        "/changes",
        "/notifications/",
        "",
        "/notifications?a=b",
        "/changes/000001.xml",
    };
    char url[200];

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        snprintf(url, sizeof(url), SETS_URL "/sets/demo%s", paths[i]);
        assert_refused(url, STATUS_INVALID,
                       SETS_URL "/sets/demo/notifications");
        assert_refused(url, STATUS_INVALID,
                       SETS_URL "/sets/demo/framework-notifications");
    }
    assert_refused(SETS_URL "/.well-known/resourcesync", STATUS_INVALID,
                   "/sets/{set}/notifications");
    assert_refused(SETS_URL "/sets/other/notifications", STATUS_NOT_FOUND,
                   "no topic");
    assert_refused(SETS_URL "/sets/%2e%2e/notifications", STATUS_NOT_FOUND,
                   "no topic");
    assert_refused("http://example.org.evil.example/sets/demo/notifications",
                   STATUS_NOT_FOUND, "no topic");
    assert_refused("http://example.orgx/sets/demo/notifications",
                   STATUS_NOT_FOUND, "no topic");
    assert_refused("https://example.org/sets/demo/notifications",
                   STATUS_NOT_FOUND, "no topic");
    assert_true(list_is_empty(&e.hub.topics));
    engine_close();
}

/* a position of another log, or beyond it, is refused. */
TEST(judges_positions)
{
    struct topic *topic;
    uint64_t after;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 3);
    topic = find(SETS_URL "/sets/demo/notifications");
    assert_int_equal(topic_judge(topic, SLICE("2"), &after, NULL), STATUS_OK);
    assert_int_equal(after, 2);
    assert_int_equal(topic_judge(topic, SLICE("4"), &after, NULL), STATUS_GONE);
    assert_int_equal(
        topic_judge(topic, SLICE("0123456789abcdef-1"), &after, NULL),
        STATUS_GONE);
    topic_release(topic);
    engine_close();
}

/* without links that lead away, where that was asked for. */
TEST(reads_a_message_with_or_without_links)
{
    struct topic_wish wish = {.upto = UINT64_MAX, .patience = LOG_DISK};
    struct topic *topic;
    const char *type;
    struct buf text;
    uint64_t last;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 3);
    topic = find(SETS_URL "/sets/demo/notifications");
    buf_init(&text, SIZE_MAX);
    assert_int_equal(topic_read(topic, &wish, &text, &type, &last, NULL),
                     STATUS_OK);
    assert_int_equal(last, 3);
    assert_string_equal(type, "application/xml");
    assert_non_null(memmem(text.data, text.size, "rs:ln", 5));
    buf_clear(&text);
    wish.is_plain = true;
    assert_int_equal(topic_read(topic, &wish, &text, &type, &last, NULL),
                     STATUS_OK);
    assert_null(memmem(text.data, text.size, "rs:ln", 5));
    buf_clear(&text);
    wish.after = 3;
    assert_int_equal(topic_read(topic, &wish, &text, &type, &last, NULL),
                     STATUS_OK);
    assert_int_equal(text.size, 0);
    assert_int_equal(last, 3);
    buf_fini(&text);
    topic_release(topic);
    engine_close();
}

/* News is told once until somebody looks, of those who listen only; a topic
 * that goes takes its mark with it. */
TEST(is_marked_when_there_is_news)
{
    struct topic *a, *b;
    struct mark *taken;

    engine_open(state);
    sets_post(&e.sets, "a", 0, 1);
    sets_post(&e.sets, "b", 0, 1);
    a = find(SETS_URL "/sets/a/notifications");
    b = find(SETS_URL "/sets/b/notifications");
    topic_listen(a);
    sets_post(&e.sets, "a", 1, 1);
    sets_post(&e.sets, "a", 2, 1);
    sets_post(&e.sets, "b", 1, 1);
    assert_int_equal(atomic_load(&e.n_wakes), 1);
    taken = topic_take_dirty(&e.hub);
    assert_ptr_equal(topic_next_dirty(&taken), a);
    assert_null(topic_next_dirty(&taken));

    topic_listen(b);
    sets_post(&e.sets, "a", 3, 1);
    sets_post(&e.sets, "b", 2, 1);
    topic_release(a);
    taken = topic_take_dirty(&e.hub);
    assert_ptr_equal(topic_next_dirty(&taken), b);
    assert_null(topic_next_dirty(&taken));
    topic_release(b);
    engine_close();
}
