/*
 * transports_test.c - a set followed by each way that changes can come: the
 * library, the real broker.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tidings.h"
#include "tests/support/broker.h"
#include "tests/test.h"

/* Each is posted when the one before it has arrived. */
#define POSTS 6

/* With this one the broker ends and begins again. */
#define RESTART 3

struct followed {
    struct broker *broker;
    struct td_client *follows, *posts;
    char url[128];
    char seen[256];
    unsigned n_posted;
    bool is_unproven; /* as each message with changes has to say */
};

static void
post(struct followed *f)
{
    char body[128];
    int size = snprintf(body, sizeof(body),
                        "{\"loc\":\"http://example.com/%u\","
                        "\"change\":\"created\"}",
                        ++f->n_posted);

    assert_int_equal(td_publish(f->posts, f->url, "application/json", body,
                                (size_t)size, NULL, NULL),
                     TD_OK);
}

static int
on_message(const struct td_message *message, void *user)
{
    struct followed *f = user;

    for (size_t i = 0; i < message->n_changes; i++) {
        size_t used = strlen(f->seen);

        snprintf(f->seen + used, sizeof(f->seen) - used, "%llu ",
                 (unsigned long long)message->changes[i].seq);
    }
    assert_int_equal(message->is_unproven,
                     message->n_changes > 0 && f->is_unproven);
    if (!message->n_changes || message->last < f->n_posted)
        return 0;
    if (f->n_posted == RESTART) {
        broker_stop(f->broker);
        broker_restart(f->broker);
    }
    if (f->n_posted < POSTS)
        post(f);
    return message->last == POSTS;
}

/* With a filter, which all pass, the broker leaves out what nobody can hash. */
static void
follow_by(struct broker *broker, unsigned transport, enum td_form form,
          bool is_filtered)
{
    static const struct td_filter filter = {"change", "created"};
    struct followed f = {.broker = broker,
                         .is_unproven = is_filtered || transport == TD_POLL};
    const struct td_follow_options options = {.after = "0",
                                              .form = form,
                                              .transports = transport,
                                              .filters = &filter,
                                              .n_filters = is_filtered,
                                              .poll_ms = 50};

    snprintf(f.url, sizeof(f.url), "%s/sets/news", broker->url);
    f.follows = td_open();
    f.posts = td_open();
    assert_non_null(f.follows);
    assert_non_null(f.posts);
    post(&f);

    assert_int_equal(td_follow(f.follows, f.url, &options, on_message, &f),
                     TD_STOPPED);

    assert_string_equal(f.seen, "1 2 3 4 5 6 ");
    td_close(f.follows);
    td_close(f.posts);
}

FIXTURE(broker_setup, broker_teardown);

/* as they happen, across a restart, each once. */
TEST(changes_come_by_websocket)
{
    follow_by(broker_of(state), TD_WEBSOCKET, TD_JSON, false);
}

TEST(changes_come_by_websocket_in_xml)
{
    follow_by(broker_of(state), TD_WEBSOCKET, TD_XML, false);
}

TEST(changes_come_by_events)
{
    follow_by(broker_of(state), TD_EVENTS, TD_JSON, false);
}

TEST(changes_come_by_long_polls)
{
    follow_by(broker_of(state), TD_LONG_POLL, TD_JSON, false);
}

TEST(changes_come_by_long_polls_in_xml)
{
    follow_by(broker_of(state), TD_LONG_POLL, TD_XML, false);
}

TEST(changes_come_by_polled_lists)
{
    follow_by(broker_of(state), TD_POLL, TD_JSON, false);
}

/* what a broker filters cannot be hashed, and its messages say so. */
TEST(changes_of_a_filtered_websocket_are_unproven)
{
    follow_by(broker_of(state), TD_WEBSOCKET, TD_JSON, true);
}

TEST(changes_of_filtered_events_are_unproven)
{
    follow_by(broker_of(state), TD_EVENTS, TD_XML, true);
}
