/*
 * source_test.c - the sets of a real broker are discovered, and its history is
 * read from its lists alone, across many rotations.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/history/history.h"
#include "client/lib/client.h"
#include "client/lib/fetch.h"
#include "client/source/discover.h"
#include "tests/support/broker.h"
#include "tests/test.h"

#define ROUNDS 40

struct stage {
    struct broker broker;
    struct td_client *client;
    struct offered offered;
    unsigned n_sets;
    struct failure why;
    bool is_over;
    uint64_t first, last;
    uint64_t n;
    char upto[TD_POSITION_SIZE];
    char midway[TD_POSITION_SIZE]; /* the time of entry 60 */
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    broker_open(&s->broker, "--rotate-entries", "5", "--index-lists", "3",
                NULL);
    s->client = td_open();
    assert_non_null(s->client);
    *state = s;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    offered_fini(&s->offered);
    td_close(s->client);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* 120 changes of three resources: 24 lists, most of them in archives. */
static void
publish(struct stage *s)
{
    char url[128];

    snprintf(url, sizeof(url), "%s/sets/demo", s->broker.url);
    for (unsigned i = 0; i < ROUNDS; i++) {
        static const char body[] =
            "[{\"loc\":\"http://r.example/resource/a\",\"change\":\"updated\"},"
            "{\"loc\":\"http://r.example/resource/b\",\"change\":\"updated\"},"
            "{\"loc\":\"http://r.example/resource/c\",\"change\":\"updated\"}]";
        const struct slice slice = SLICE(body);
        const char *const lines[] = {"Content-Type: application/json", NULL};
        char post[200];
        struct fetch_request request = {
            .url = post, .headers = lines, .body = &slice};
        struct fetch_answer answer;

        snprintf(post, sizeof(post), "%s/changes", url);
        assert_int_equal(fetch_run(s->client, &request, &answer), TD_OK);
        assert_int_equal(answer.status, 200);
        fetch_answer_fini(&answer);
    }
}

static void
on_set(struct offered *offered, void *user)
{
    struct stage *s = user;

    offered_fini(&s->offered);
    s->offered = *offered;
    *offered = (struct offered){.url = NULL};
    s->n_sets++;
}

static void
on_found(const struct failure *why, void *user)
{
    struct stage *s = user;

    s->why = *why;
    s->is_over = true;
}

static void
discover(struct stage *s, const char *path)
{
    char url[256];

    snprintf(url, sizeof(url), "%s%s", s->broker.url, path);
    s->is_over = false;
    s->n_sets = 0;
    assert_non_null(discovery_start(s->client, url, on_set, on_found, s));
    assert_int_equal(loop_until(s->client->loop, &s->is_over), TD_OK);
    if (s->why.rc)
        fail_msg("%s: %s", path, s->why.text);
    assert_int_equal(s->n_sets, 1);
}

static bool
on_entry(const struct document_entry *entry, const struct place *after,
         void *user)
{
    struct stage *s = user;
    uint64_t seq = entry->change.seq;
    struct place midway = {.is_time = true, .time_us = entry->when_us};

    assert_int_equal(after->at.seq, seq);
    if (s->n++ == 0)
        s->first = seq;
    else
        assert_int_equal(seq, s->last + 1);
    s->last = seq;
    midway.n_at = 1;
    if (seq == 60)
        place_write(s->midway, &midway);
    return true;
}

static void
on_read(const struct failure *why, const struct place *upto, void *user)
{
    struct stage *s = user;

    place_write(s->upto, upto);
    on_found(why, user);
}

static enum td_status
read_after(struct stage *s, const char *after)
{
    struct history_plan plan = {.offered = &s->offered};

    assert_int_equal(place_read(slice_of(after), &plan.after), 0);
    s->is_over = false;
    s->n = s->first = s->last = 0;
    assert_non_null(history_start(s->client, &plan, on_entry, on_read, s));
    assert_int_equal(loop_until(s->client->loop, &s->is_over), TD_OK);
    return s->why.rc;
}

FIXTURE(set_stage, clear_stage);

/* whichever document one begins with. */
TEST(a_set_is_found_from_each_of_its_addresses)
{
    static const char *const paths[] = {
        "/sets/demo",
        "/sets",
        "/.well-known/resourcesync",
        "/",
        "/sets/demo/capabilitylist.xml",
        "/sets/demo/changelist.xml",
        "/sets/demo/changelist-archive.xml",
        "/sets/demo/changes/latest.xml",
        "/sets/demo/changes/000000000002.xml",
        "/sets/demo/notifications",
    };
    struct stage *s = *state;

    publish(s);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        discover(s, paths[i]);
        assert_string_equal(s->offered.name, "demo");
        assert_non_null(strstr(s->offered.url, "/sets/demo"));
        assert_non_null(s->offered.change_list);
        assert_non_null(s->offered.change_list_archive);
        assert_non_null(s->offered.memory);
        assert_non_null(s->offered.stream);
        assert_non_null(s->offered.events);
        assert_non_null(s->offered.topic);
        assert_non_null(strstr(s->offered.position, "-120"));
        assert_non_null(strstr(s->offered.earliest, "-0"));
    }
}

/* every change once and in order, from any place, out of
 * open list, index and archives. */
TEST(the_history_is_read_from_any_place)
{
    struct stage *s = *state;
    char after[TD_POSITION_SIZE];

    publish(s);
    discover(s, "/sets/demo");
    assert_int_equal(read_after(s, "0"), TD_OK);
    assert_int_equal(s->n, 120);
    assert_int_equal(s->first, 1);
    assert_string_equal(s->upto, s->offered.position);

    for (unsigned seq = 0; seq <= 120; seq += 7) {
        snprintf(after, sizeof(after), "%.16s-%u", s->offered.position, seq);
        assert_int_equal(read_after(s, after), TD_OK);
        assert_int_equal(s->n, 120 - seq);
        assert_int_equal(s->first, seq + 1);
        assert_string_equal(s->upto, s->offered.position);
    }

    snprintf(after, sizeof(after), "%s", s->midway);
    assert_int_equal(read_after(s, after), TD_OK);
    assert_int_equal(s->n, 60);
    assert_string_equal(s->upto, s->offered.position);
}

/* */
TEST(a_place_that_the_log_never_had_is_gone)
{
    struct stage *s = *state;
    char after[TD_POSITION_SIZE];

    publish(s);
    discover(s, "/sets/demo");
    snprintf(after, sizeof(after), "%.16s-121", s->offered.position);
    assert_int_equal(read_after(s, after), TD_GONE);
    assert_int_equal(read_after(s, "fedcba9876543210-7"), TD_GONE);
    assert_int_equal(s->n, 0);
}
