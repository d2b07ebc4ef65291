#include "client/downloads/host_queues.h"

#include <stdio.h>

#include "tests/test.h"

static const struct host_queues_limits limits = {
    .per_host = 4,
    .failures = 3,
    .pause_ms = 100,
    .pause_most_ms = 1000,
    .asked_most_ms = 60000,
};

static void
push(struct host_queues *hosts, const char *url, struct queued_job *job)
{
    struct host *host = host_queues_of(hosts, slice_of(url));

    assert_non_null(host);
    host_queues_push(host, job, false);
}

TEST(urls_of_one_server_are_one_host)
{
    struct host_queues hosts;
    struct host *host;

    host_queues_init(&hosts, &limits);
    host = host_queues_of(&hosts, SLICE("http://a.org/x"));
    assert_ptr_equal(host_queues_of(&hosts, SLICE("HTTP://me:it@A.org?y@z")),
                     host);
    assert_ptr_equal(host_queues_of(&hosts, SLICE("http://a.org:80/x")), host);
    assert_ptr_not_equal(host_queues_of(&hosts, SLICE("https://a.org/x")),
                         host);
    assert_ptr_equal(host_queues_of(&hosts, SLICE("https://a.org:443")),
                     host_queues_of(&hosts, SLICE("https://a.org/x")));
    assert_ptr_not_equal(host_queues_of(&hosts, SLICE("http://a.org:443/")),
                         host);
    assert_ptr_not_equal(host_queues_of(&hosts, SLICE("http://a.org:81/x")),
                         host);
    assert_string_equal(host->name.text, "http://a.org");
    assert_null(host_queues_of(&hosts, SLICE("ftp://a.org/x")));
    assert_false(host_name_read(SLICE("http:///x"), NULL));
    assert_false(host_name_read(SLICE("http://a.org/x\ny"), NULL));
    assert_false(host_name_read(SLICE("urn:x"), NULL));
    assert_true(host_name_read(SLICE("https://[::1]:8443/x"), NULL));
    host_queues_fini(&hosts);
}

/* Many that wait for one do not hold back the few of another. */
TEST(hosts_take_turns)
{
    struct host_queues hosts;
    struct queued_job jobs[6] = {{.due_ms = 0}};

    host_queues_init(&hosts, &limits);
    for (unsigned i = 0; i < 4; i++)
        push(&hosts, "http://a.org/", &jobs[i]);
    push(&hosts, "http://b.org/", &jobs[4]);
    push(&hosts, "http://b.org/", &jobs[5]);

    assert_ptr_equal(host_queues_take(&hosts, 0), &jobs[0]);
    assert_ptr_equal(host_queues_take(&hosts, 0), &jobs[4]);
    assert_ptr_equal(host_queues_take(&hosts, 0), &jobs[1]);
    assert_ptr_equal(host_queues_take(&hosts, 0), &jobs[5]);
    assert_ptr_equal(host_queues_take(&hosts, 0), &jobs[2]);
    assert_ptr_equal(host_queues_take(&hosts, 0), &jobs[3]);
    assert_null(host_queues_take(&hosts, 0));
    host_queues_fini(&hosts);
}

/* After a failure one at a time, until it is well again. */
TEST(a_host_that_failed_gets_its_places_back_one_by_one)
{
    struct host_queues hosts;
    struct queued_job jobs[8] = {{.due_ms = 0}};

    host_queues_init(&hosts, &limits);
    for (unsigned i = 0; i < 8; i++)
        push(&hosts, "http://a.org/", &jobs[i]);
    host_queues_done(&hosts, host_queues_take(&hosts, 0), HOST_QUEUES_FAILED, 0,
                     0);
    assert_null(host_queues_take(&hosts, 99));
    assert_int_equal(host_queues_wait_ms(&hosts, 40), 60);
    assert_ptr_equal(host_queues_take(&hosts, 100), &jobs[1]);
    assert_null(host_queues_take(&hosts, 100));
    assert_int_equal(host_queues_wait_ms(&hosts, 100), -1);
    host_queues_done(&hosts, &jobs[1], HOST_QUEUES_WELL, 0, 100);
    assert_ptr_equal(host_queues_take(&hosts, 100), &jobs[2]);
    assert_ptr_equal(host_queues_take(&hosts, 100), &jobs[3]);
    assert_null(host_queues_take(&hosts, 100));
    host_queues_done(&hosts, &jobs[2], HOST_QUEUES_WELL, 0, 100);
    assert_ptr_equal(host_queues_take(&hosts, 100), &jobs[4]);
    assert_ptr_equal(host_queues_take(&hosts, 100), &jobs[5]);
    assert_ptr_equal(host_queues_take(&hosts, 100), &jobs[6]);
    assert_null(host_queues_take(&hosts, 100));
    host_queues_fini(&hosts);
}

/* Pauses grow up to a limit; a server's Retry-After is honoured up to
 * another. */
TEST(pauses_grow_and_what_is_asked_for_is_honoured)
{
    static const int64_t pauses[] = {100, 200, 400, 800, 1000, 1000};
    struct host_queues hosts;
    struct queued_job job = {.due_ms = 0};
    int64_t now = 0;

    host_queues_init(&hosts, &limits);
    for (unsigned i = 0; i < 6; i++) {
        push(&hosts, "http://a.org/", &job);
        assert_ptr_equal(host_queues_take(&hosts, now), &job);
        host_queues_done(&hosts, &job, HOST_QUEUES_FAILED, 0, now);
        assert_int_equal(host_queues_is_down(&hosts, job.host, now), i >= 2);
        now += pauses[i];
        assert_false(host_queues_is_down(&hosts, job.host, now));
    }
    push(&hosts, "http://a.org/", &job);
    assert_ptr_equal(host_queues_take(&hosts, now), &job);
    host_queues_done(&hosts, &job, HOST_QUEUES_FAILED, 7, now);
    push(&hosts, "http://a.org/", &job);
    assert_int_equal(host_queues_wait_ms(&hosts, now), 7000);
    assert_ptr_equal(host_queues_take(&hosts, now + 7000), &job);
    host_queues_done(&hosts, &job, HOST_QUEUES_FAILED, 1000000, now + 7000);
    push(&hosts, "http://a.org/", &job);
    assert_int_equal(host_queues_wait_ms(&hosts, now + 7000), 60000);
    host_queues_fini(&hosts);
}

/* Requests that were under way when the pause began are one failure. */
TEST(what_fails_together_counts_once)
{
    struct host_queues hosts;
    struct queued_job jobs[4] = {{.due_ms = 0}};

    host_queues_init(&hosts, &limits);
    for (unsigned i = 0; i < 4; i++)
        push(&hosts, "http://a.org/", &jobs[i]);
    for (unsigned i = 0; i < 4; i++)
        assert_non_null(host_queues_take(&hosts, 0));
    for (unsigned i = 0; i < 4; i++)
        host_queues_done(&hosts, &jobs[i], HOST_QUEUES_FAILED, i, 1);
    assert_false(host_queues_is_down(&hosts, jobs[0].host, 1));
    push(&hosts, "http://a.org/", &jobs[0]);
    assert_int_equal(host_queues_wait_ms(&hosts, 1), 3000);
    host_queues_fini(&hosts);
}

TEST(a_job_may_have_its_own_time)
{
    struct host_queues hosts;
    struct queued_job late = {.due_ms = 50}, now = {.due_ms = 0};

    host_queues_init(&hosts, &limits);
    push(&hosts, "http://a.org/", &late);
    push(&hosts, "http://a.org/", &now);
    assert_ptr_equal(host_queues_take(&hosts, 0), &now);
    assert_null(host_queues_take(&hosts, 49));
    assert_int_equal(host_queues_wait_ms(&hosts, 0), 50);
    host_queues_remove(&late);
    assert_null(host_queues_take(&hosts, 50));
    assert_int_equal(host_queues_wait_ms(&hosts, 0), -1);
    host_queues_fini(&hosts);
}

/* A caller that looks up another host for a job still uses the first one, which
 * has no request left. */
TEST(a_host_stays_while_others_are_looked_for)
{
    struct host_queues hosts;
    struct queued_job job = {.due_ms = 0};
    char url[40];

    host_queues_init(&hosts, &limits);
    push(&hosts, "http://a.org/", &job);
    assert_ptr_equal(host_queues_take(&hosts, 0), &job);
    host_queues_done(&hosts, &job, HOST_QUEUES_WELL, 0, 0);
    for (unsigned i = 0; i < 100; i++) {
        snprintf(url, sizeof(url), "http://other-%u.org/", i);
        assert_non_null(host_queues_of(&hosts, slice_of(url)));
    }
    assert_string_equal(job.host->name.text, "http://a.org");
    assert_ptr_equal(host_queues_of(&hosts, SLICE("http://a.org/")), job.host);
    assert_false(host_queues_is_down(&hosts, job.host, 0));

    /* Later it may be forgotten, and is found anew. */
    assert_null(host_queues_take(&hosts, 0));
    push(&hosts, "http://a.org/", &job);
    assert_ptr_equal(host_queues_take(&hosts, 0), &job);
    host_queues_fini(&hosts);
}
