#include "broker/hub/topic.h"

#include "tests/test.h"
#include "tests/unit/hub_engine/engine.h"

static struct topic *
find(const char *url)
{
    struct topic *topic;
    struct problem why = {""};

    if (topic_find(&e.hub, slice_of(url), NULL, &topic, &why))
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

FIXTURE(engine_setup, engine_teardown);

/* each set has two topics. */
TEST(finds_the_two_topics_of_a_set)
{
    struct topic *changes, *framework;

    post(1);
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

    post(1);
    topic = find(SETS_URL "/sets/demo/notifications");
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++)
        if (find(spellings[i]) != topic)
            fail_msg("%s", spellings[i]);
    topic_release(topic);
}

static void
assert_refused(const char *url, enum status rc, const char *part)
{
    struct problem why = {""};
    struct topic *topic;

    if (topic_find(&e.hub, slice_of(url), NULL, &topic, &why) != rc)
        fail_msg("%s: %s", url, why.text);
    assert_null(topic);
    if (!strstr(why.text, part))
        fail_msg("%s: \"%s\" does not say \"%s\"", url, why.text, part);
}

/* W-028, W-044: the hub refuses an unknown topic at once; for one of our own
 * URLs it names the topic that may be meant. */
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
    static const char *const others[] = {
        SETS_URL "/sets/other/notifications",
        SETS_URL "/sets/%2e%2e/notifications",
        "http://example.org.evil.example/sets/demo/notifications",
        "http://example.orgx/sets/demo/notifications",
        "https://example.org/sets/demo/notifications",
    };
    char url[200];

    post(1);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        snprintf(url, sizeof(url), SETS_URL "/sets/demo%s", paths[i]);
        assert_refused(url, STATUS_INVALID,
                       SETS_URL "/sets/demo/notifications");
        assert_refused(url, STATUS_INVALID,
                       SETS_URL "/sets/demo/framework-notifications");
    }
    assert_refused(SETS_URL "/.well-known/resourcesync", STATUS_INVALID,
                   "/sets/{set}/notifications");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_refused(others[i], STATUS_NOT_FOUND, "no topic");
    assert_true(list_is_empty(&e.hub.topics));
}

/* a position of another log, or beyond it, is refused. */
TEST(judges_positions)
{
    struct topic *topic;
    uint64_t after;

    post(3);
    topic = find(SETS_URL "/sets/demo/notifications");
    assert_int_equal(topic_judge(topic, SLICE("2"), &after, NULL), STATUS_OK);
    assert_int_equal(after, 2);
    assert_int_equal(topic_judge(topic, SLICE("4"), &after, NULL), STATUS_GONE);
    assert_int_equal(
        topic_judge(topic, SLICE("0123456789abcdef-1"), &after, NULL),
        STATUS_GONE);
    topic_release(topic);
}

/* The message for `wish`; its owner frees `data`. */
static struct shared_message
read_topic(const struct topic *topic, struct shared_wish wish)
{
    struct shared_message message = {.wish = wish};

    message.wish.channel = topic_channel(topic);
    assert_int_equal(topic_make(&message, LOG_DISK, NULL), STATUS_OK);
    assert_string_equal(message.type, "application/xml");
    return message;
}

static bool
has_links(const struct shared_message *message)
{
    return memmem(message->data, message->size, "rs:ln", 5) != NULL;
}

static struct shared_wish
all_after(uint64_t after)
{
    return (struct shared_wish){.after = after, .upto = UINT64_MAX};
}

/* a reader may ask for changes without links. */
TEST(reads_a_message_with_or_without_links)
{
    struct shared_wish plain = all_after(0);
    struct shared_message message;
    struct topic *topic;

    post(3);
    topic = find(SETS_URL "/sets/demo/notifications");
    message = read_topic(topic, all_after(0));
    assert_int_equal(message.last, 3);
    assert_true(has_links(&message));
    free(message.data);
    plain.form = MESSAGE_PLAIN;
    message = read_topic(topic, plain);
    assert_false(has_links(&message));
    free(message.data);
    message = read_topic(topic, all_after(3));
    assert_int_equal(message.last, 3);
    assert_int_equal(message.size, 0);
    free(message.data);
    topic_release(topic);
}

/* the hub drops a message and makes it again: it has the same
 * bytes, also if sources have posted meanwhile. */
TEST(reads_the_same_whenever_it_reads)
{
    struct shared_message first, again;
    struct shared_wish range = all_after(1);
    struct topic *topic;

    post(3);
    post(3);
    topic = find(SETS_URL "/sets/demo/notifications");
    first = read_topic(topic, all_after(1));
    assert_int_equal(first.last, 6);
    post(3);
    range.upto = 6;
    again = read_topic(topic, range);
    assert_int_equal(again.last, 6);
    assert_true(slice_equal(shared_message_slice(&first),
                            shared_message_slice(&again)));
    free(first.data);
    free(again.data);
    topic_release(topic);
}

/* The next topic that is marked; takes the mark off. */
static struct topic *
next_marked(void)
{
    struct watched_log *watched = watcher_next(&e.hub.readers.watcher);

    if (!watched)
        return NULL;
    watched_clear(watched);
    return list_entry(watched, struct topic, news.watched);
}

/* A topic is marked once until the hub looks, and only if it listens; a
 * released topic loses its mark. */
TEST(is_marked_when_there_is_news)
{
    struct topic *a, *b;
    unsigned n_wakes;

    sets_post(&e.sets, "a", 0, 1);
    sets_post(&e.sets, "b", 0, 1);
    a = find(SETS_URL "/sets/a/notifications");
    b = find(SETS_URL "/sets/b/notifications");
    topic_listen(a);
    n_wakes = atomic_load(&quiet->n_wakes);
    sets_post(&e.sets, "a", 1, 1);
    sets_post(&e.sets, "a", 2, 1);
    sets_post(&e.sets, "b", 1, 1);
    assert_int_equal(atomic_load(&quiet->n_wakes) - n_wakes, 1);
    watcher_take(&e.hub.readers.watcher);
    assert_ptr_equal(next_marked(), a);
    assert_null(next_marked());

    topic_listen(b);
    sets_post(&e.sets, "a", 3, 1);
    sets_post(&e.sets, "b", 2, 1);
    topic_release(a);
    watcher_take(&e.hub.readers.watcher);
    assert_ptr_equal(next_marked(), b);
    assert_null(next_marked());
    topic_release(b);
}
