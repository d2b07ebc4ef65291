/*
 * foreign_test.c - td_callback_follow at a source and a hub without Tidings: a
 * delivery of the hub shows that there is more, and the follower pulls that
 * from the Change List.
 */
#include <stdio.h>
#include <string.h>

#include "client/tidings.h"
#include "tests/support/site.h"
#include "tests/test.h"
#include "tests/unit/websub/stage.h"

#define URLSET                                                       \
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"

/* Of minute `m`. */
#define CHANGE(loc, m)                                                    \
    "<url><loc>http://example.com/" loc "</loc><lastmod>2026-01-01T00:" m \
    ":00Z</lastmod><rs:md change=\"updated\"/></url>"

struct told {
    int n;
    char locs[1000]; /* each with "|" behind it */
    int n_troubles;
    unsigned pause_ms; /* after the last of them */
    int n_ends;
    enum td_status end;
    char why[300];
};

static int
on_message(const struct td_message *message, void *user)
{
    struct told *told = user;

    for (size_t i = 0; i < message->n_changes; i++) {
        strcat(strcat(told->locs, message->changes[i].loc), "|");
        told->n++;
    }
    return 0;
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct told *told = user;

    (void)why;
    told->pause_ms = pause_ms;
    told->n_troubles++;
}

static void
on_end(enum td_status rc, const char *why, void *user)
{
    struct told *told = user;

    told->end = rc;
    snprintf(told->why, sizeof(told->why), "%s", why);
    told->n_ends++;
}

static void
put_changes(struct site *site, const char *changes)
{
    site_putf(site, "/changelist.xml", "application/xml",
              URLSET "<rs:ln rel=\"up\" href=\"%s/capabilitylist.xml\"/>"
                     "<rs:md capability=\"changelist\" "
                     "from=\"2026-01-01T00:00:00Z\"/>%s</urlset>",
              site_url(site), changes);
}

static struct site *
source_new(const char *topic)
{
    struct site *site = site_new();
    char notified[500] = "";

    if (topic)
        snprintf(notified, sizeof(notified),
                 "<url><loc>%s</loc>"
                 "<rs:md capability=\"change-notification\"/></url>",
                 topic);
    site_putf(site, "/capabilitylist.xml", "application/xml",
              URLSET "<rs:md capability=\"capabilitylist\"/>"
                     "<url><loc>%s/changelist.xml</loc>"
                     "<rs:md capability=\"changelist\"/></url>%s</urlset>",
              site_url(site), notified);
    put_changes(site, CHANGE("a", "01"));
    return site;
}

static struct td_follower *
follow(struct site *site, struct told *told)
{
    const struct td_follow_options how = {.since = "2026-01-01T00:00:00Z",
                                          .form = TD_XML,
                                          .on_trouble = on_trouble,
                                          .on_end = on_end};
    struct td_follower *follower;

    turner_hold(stage.turner);
    assert_int_equal(td_callback_follow(stage.callback,
                                        site_link(site, "/capabilitylist.xml"),
                                        &how, on_message, told, &follower),
                     TD_OK);
    turner_let(stage.turner);
    return follower;
}

FIXTURE(stage_setup, stage_teardown);

/* With the next pause: it distinguishes a hub that is away from a lost
 * connection. */
TEST(trouble_with_the_hub_is_told)
{
    struct site *site = source_new(origin_url(stage.source));
    struct told told = {.n = 0};
    struct td_follower *follower;
    struct fake_request *r;

    stage_headers(NULL);
    follower = follow(site, &told);
    r = stage_take(NULL);
    fake_hub_answer(r, 503, "Retry-After: 30\r\n", "");
    turner_await(stage.turner, &told.n_troubles, 1);

    turner_hold(stage.turner);
    assert_in_range(told.pause_ms, 30000, 300000);
    td_follower_close(follower);
    turner_let(stage.turner);
    site_free(site);
}

/* W-147, R-309: a delivery of any content triggers a look at the list; its
 * changes come from the list, each once. */
TEST(a_delivery_is_a_reason_to_look_at_the_list)
{
    struct site *site = source_new(origin_url(stage.source));
    struct told told = {.n = 0};
    struct td_follower *follower;
    struct fake_request *r;
    unsigned n_looks;

    stage_headers(NULL);
    follower = follow(site, &told);
    r = stage_take(NULL);
    fake_hub_assert(r, "hub.topic", origin_url(stage.source));
    fake_hub_answer(r, 202, NULL, "");
    assert_int_equal(fake_hub_verify(&stage.hub, r, NULL, 7200), 200);
    turner_await(stage.turner, &told.n, 1);

    /* At the begin, and when it was verified. */
    site_await(site, "/changelist.xml", 2);
    put_changes(site, CHANGE("a", "01") CHANGE("b", "02"));
    STAGE_DELIVER(r, 202, .type = "application/xml",
                  .body = URLSET
                  "<rs:md capability=\"change-notification\"/>" CHANGE(
                      "b", "02") "</urlset>");
    turner_await(stage.turner, &told.n, 2);

    /* An unreadable delivery, and one that the list does not confirm. */
    n_looks = site_count(site, "/changelist.xml");
    STAGE_DELIVER(r, 202, .body = "nonsense");
    site_await(site, "/changelist.xml", n_looks + 1);
    n_looks = site_count(site, "/changelist.xml");
    STAGE_DELIVER(r, 202, .type = "application/xml",
                  .body = URLSET
                  "<rs:md capability=\"change-notification\"/>" CHANGE(
                      "evil", "03") "</urlset>");
    site_await(site, "/changelist.xml", n_looks + 1);
    put_changes(site, CHANGE("a", "01") CHANGE("b", "02") CHANGE("c", "04"));
    STAGE_DELIVER(r, 202, .body = "more");
    turner_await(stage.turner, &told.n, 3);

    turner_hold(stage.turner);
    td_follower_close(follower);
    turner_let(stage.turner);
    assert_string_equal(told.locs, "http://example.com/a|http://example.com/b|"
                                   "http://example.com/c|");
    assert_int_equal(told.n_ends, 0);
    r = stage_take(NULL);
    fake_hub_assert(r, "hub.mode", "unsubscribe");
    fake_hub_answer(r, 404, NULL, "");
    site_free(site);
}

/* There is nothing to subscribe to, and that is said. */
TEST(a_source_without_a_topic_is_refused)
{
    struct site *site = source_new(NULL);
    struct told told = {.n = 0};
    struct td_follower *follower = follow(site, &told);

    turner_await(stage.turner, &told.n_ends, 1);
    turner_hold(stage.turner);
    td_follower_close(follower);
    turner_let(stage.turner);
    assert_int_equal(told.end, TD_REFUSED);
    assert_non_null(strstr(told.why, "names no topic"));
    site_free(site);
}
