/*
 * downloads_patience_test.c - how many requests a host gets at a time, and the
 * pauses for one that is busy or down.
 */
#include "base/clock.h"
#include "client/downloads/downloads.h"
#include "tests/test.h"
#include "tests/unit/downloads/downloads_stage.h"

FIXTURE(set_up, tear_down);

/* At most so many at a time of one host and of all; connections are kept. */
TEST(a_host_gets_no_more_than_its_share)
{
    struct fixture *f = *state;
    struct site *other = site_new();
    char path[20];

    begin(f, (struct downloads_limits){.per_host = 3, .total = 5});
    site_hold(f->site, NULL);
    site_hold(other, NULL);
    for (unsigned i = 0; i < 20; i++) {
        struct want want;

        snprintf(path, sizeof(path), "/%u", i);
        site_put(f->site, path, NULL, SLICE("x"));
        site_put(other, path, NULL, SLICE("x"));
        add(f, want_of(f, i, path));
        want = want_of(f, 100 + i, path);
        want.loc = slice_of(site_link(other, path));
        add(f, want);
    }
    f->is_over = false;
    while (site_count(f->site, NULL) + site_count(other, NULL) < 5)
        assert_int_equal(handle_loop_service(f->client->loop), STATUS_OK);
    site_release(f->site, NULL);
    site_release(other, NULL);
    run_until(f, 40);

    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(f->results[i].why.rc, STATUS_OK);
    assert_true(site_max_parallel(f->site) <= 3);
    assert_true(site_max_parallel(other) <= 3);
    assert_in_range(site_max_parallel(f->site) + site_max_parallel(other), 5,
                    6);
    assert_true(site_connections(f->site) <= 3);
    site_free(other);
}

/* 429 and 503 with Retry-After: that host waits, the others go on. */
TEST(who_asks_for_patience_is_waited_for_alone)
{
    struct fixture *f = *state;
    struct site *other = site_new();
    int64_t begun_ms = clock_steady_ms();
    struct want want;

    site_put(f->site, "/a", NULL, SLICE("x"));
    site_put(f->site, "/b", NULL, SLICE("x"));
    site_status(f->site, "/a", 429, "Retry-After: 5", 1);
    begin(f, (struct downloads_limits){.per_host = 1});
    add(f, want_of(f, 1, "/a"));
    add(f, want_of(f, 2, "/b"));
    for (unsigned i = 10; i < 30; i++) {
        want = want_of(f, i, "/c");
        want.loc = slice_of(site_link(other, "/c"));
        site_put(other, "/c", NULL, SLICE("x"));
        add(f, want);
    }
    run_until(f, 22);

    /* The refused one is the first again, and the others did not wait. */
    assert_int_equal(f->results[20].id, 1);
    assert_int_equal(f->results[20].n_attempts, 2);
    assert_int_equal(f->results[21].id, 2);
    for (unsigned i = 0; i < 22; i++)
        assert_int_equal(f->results[i].why.rc, STATUS_OK);
    assert_in_range(clock_steady_ms() - begun_ms, 5000, 5001);
    site_free(other);
}

/* Attempts end; one is kept for each duplicate. */
TEST(attempts_end_and_leave_one_for_each_duplicate)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");
    struct downloads_link link = {
        .href = slice_of(site_link(f->site, "/b")),
        .length = LENGTH_NONE,
    };

    site_put(f->site, "/a", NULL, SLICE("x"));
    site_status(f->site, "/a", 500, NULL, 0);
    assert_says(run_one(f, want), STATUS_UNREACHABLE, "the server answers 500");
    assert_int_equal(site_count(f->site, "/a"), 5);

    site_put(f->site, "/b", NULL, SLICE("x"));
    want.duplicates = &link;
    want.n_duplicates = 1;
    assert_says(run_one(f, want), STATUS_OK, "");
    assert_int_equal(site_count(f->site, "/a"), 9);
    assert_int_equal(site_count(f->site, "/b"), 1);
}

/* A host that does not answer is found to be down once, not for each of its
 * resources. */
TEST(a_host_that_is_down_fails_all_that_wait_for_it)
{
    struct fixture *f = *state;
    struct site *dead = site_new();
    char url[60];

    snprintf(url, sizeof(url), "%s/x", site_url(dead));
    site_free(dead);
    begin(f, (struct downloads_limits){.attempts = 3});
    site_put(f->site, "/dup", NULL, SLICE("x"));
    for (unsigned i = 0; i < 50; i++) {
        struct want want = want_of(f, i, "/x");
        struct downloads_link link = {
            .href = slice_of(site_link(f->site, "/dup")),
            .length = LENGTH_NONE,
        };

        want.loc = slice_of(url);
        want.duplicates = &link;
        want.n_duplicates = i % 2;
        add(f, want);
    }
    run_until(f, 50);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(result_of(f, i)->why.rc,
                         i % 2 ? STATUS_OK : STATUS_UNREACHABLE);
}

/* A download without time does not wait for a host that asks for a long pause:
 * its resources come from elsewhere or not at all. */
TEST(a_host_that_asks_for_too_much_patience_is_down)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");
    struct site *other = site_new();
    struct downloads_link link = {.href = slice_of(site_link(other, "/b")),
                                  .length = LENGTH_NONE};
    int64_t begun_ms = clock_steady_ms();

    begin(f, (struct downloads_limits){.patience_ms = 2000});
    site_put(f->site, "/a", NULL, SLICE("x"));
    site_put(other, "/b", NULL, SLICE("x"));
    site_status(f->site, "/a", 503, "Retry-After: 60", 0);
    assert_says(run_one(f, want), STATUS_UNREACHABLE, "the server answers 503");
    want.id = 2;
    want.duplicates = &link;
    want.n_duplicates = 1;
    assert_says(run_one(f, want), STATUS_OK, "");
    assert_int_equal(site_count(f->site, "/a"), 1);
    assert_int_equal(clock_steady_ms(), begun_ms);

    /* It waits for a pause that fits. */
    clock_pass_us(60 * INT64_C(1000000));
    begun_ms = clock_steady_ms();
    begin(f, (struct downloads_limits){.patience_ms = 2000});
    want.n_duplicates = 0;
    site_status(f->site, "/a", 503, "Retry-After: 1", 1);
    assert_says(run_one(f, want), STATUS_OK, "");
    assert_in_range(clock_steady_ms() - begun_ms, 1000, 1001);
    site_free(other);
}
