/*
 * foreign_acts_test.c - two registries that share a journal: one of them does
 * something to a set, and the other one follows.
 */
#include <stdlib.h>
#include <string.h>

#include "broker/sets/settings.h"
#include "tests/support/alterations.h"
#include "tests/support/sets.h"
#include "tests/support/shared_journal.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

struct pair {
    struct shared_journal all;
    struct seat seats[2];
    struct tempdir dirs[2];
    struct sets s[2];
};

static int
pair_setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    shared_journal_init(&p->all);
    for (int i = 0; i < 2; i++) {
        tempdir_open(&p->dirs[i]);
        sets_configure(&p->s[i], p->dirs[i].path);
        p->s[i].journal = seat_take(&p->seats[i], &p->all);
        sets_open(&p->s[i]);
    }
    *state = p;
    return 0;
}

static int
pair_teardown(void **state)
{
    struct pair *p = *state;

    for (int i = 0; i < 2; i++) {
        sets_close(&p->s[i]);
        tempdir_close(&p->dirs[i]);
    }
    shared_journal_fini(&p->all);
    free(p);
    return 0;
}

FIXTURE(pair_setup, pair_teardown);

/* Registry `i` follows all records. */
static void
follow(struct pair *p, int i)
{
    struct log *log = registry_log(p->s[i].registry);

    for (size_t n = 0; n < p->all.n; n++) {
        struct post post = {.kind = POST_RECORD,
                            .record = buf_slice(&p->all.records[n].bytes),
                            .place = p->all.records[n].place};
        struct problem why;

        if (log_post_and_wait(log, &post, &why))
            fail_msg("%s", why.text);
    }
}

static void
assert_equal_sets(struct pair *p, const char *name)
{
    struct head a = sets_head(&p->s[0], name), b = sets_head(&p->s[1], name);

    assert_int_equal(a.last, b.last);
    assert_string_equal(a.epoch, b.epoch);
    assert_int_equal(a.created_us, b.created_us);
    assert_int_equal(a.changed_us, b.changed_us);
    assert_int_equal(a.list, b.list);
    assert_true(digest_is_equal(&a.digest, &b.digest));
    assert_int_equal(log_set_number(sets_find(&p->s[0], name)->log),
                     log_set_number(sets_find(&p->s[1], name)->log));
}

/* A post at one broker makes the set at the other broker, too, with the same
 * framework events. */
TEST(a_set_begins_everywhere)
{
    struct pair *p = *state;
    struct head a, b;

    sets_post(&p->s[0], "news", 1, 3);
    follow(p, 1);
    assert_equal_sets(p, "news");
    sets_post(&p->s[1], "news", 4, 2);
    follow(p, 0);
    assert_equal_sets(p, "news");
    assert_int_equal(sets_head(&p->s[0], "news").last, 5);
    assert_int_equal(registry_count(p->s[0].registry), 1);
    assert_true(log_head(registry_framework(p->s[0].registry), &a));
    assert_true(log_head(registry_framework(p->s[1].registry), &b));
    assert_true(a.last > 0);
    assert_int_equal(a.last, b.last);
    assert_true(digest_is_equal(&a.digest, &b.digest));
}

/* Both were about to make it. */
TEST(a_set_that_both_begin_is_one)
{
    struct pair *p = *state;

    (void)sets_unborn(&p->s[1], "news");
    sets_post(&p->s[0], "news", 1, 1);
    sets_post(&p->s[1], "news", 2, 1);
    follow(p, 0);
    assert_equal_sets(p, "news");
    assert_int_equal(sets_head(&p->s[1], "news").last, 2);
}

TEST(settings_hold_everywhere)
{
    struct pair *p = *state;
    struct settings settings;

    alterations_put(&p->s[0], "news",
                    "{\"title\":\"News\",\"rotateEntries\":2}");
    follow(p, 1);
    registry_settings(sets_find(&p->s[1], "news"), &settings);
    assert_string_equal(settings.title, "News");
    sets_post(&p->s[1], "news", 1, 3);
    assert_int_equal(sets_head(&p->s[1], "news").list, 2);
    follow(p, 0);
    assert_equal_sets(p, "news");
}

/* A private set is private before any thread can find it. */
TEST(a_private_set_is_private_everywhere)
{
    struct pair *p = *state;

    alterations_put(&p->s[0], "secret", "{\"private\":true}");
    follow(p, 1);
    assert_true(set_is_private(sets_find(&p->s[1], "secret")));
    assert_int_equal(registry_count_public(p->s[1].registry), 0);
}

/* A removed set is gone everywhere, and its numbers are never given again. */
TEST(a_set_ends_everywhere)
{
    struct pair *p = *state;
    bool was_removed;

    sets_post(&p->s[0], "news", 1, 1);
    follow(p, 1);
    alterations_remove(&p->s[0], "news");
    follow(p, 1);
    assert_null(
        registry_look(p->s[1].registry, SLICE("news"), NULL, &was_removed));
    assert_true(was_removed);
    sets_post(&p->s[1], "news", 1, 1);
    follow(p, 0);
    assert_equal_sets(p, "news");
    assert_int_equal(sets_head(&p->s[0], "news").start_list, 2);
}

TEST(many_acts_are_followed_in_their_order)
{
    struct pair *p = *state;

    sets_post(&p->s[0], "a", 1, 1);
    alterations_put(&p->s[0], "b", "{\"title\":\"B\"}");
    sets_rotate(&p->s[0], "a");
    alterations_remove(&p->s[0], "b");
    sets_post(&p->s[0], "b", 1, 2);
    sets_post(&p->s[0], "a", 2, 1);
    follow(p, 1);
    assert_equal_sets(p, "a");
    assert_equal_sets(p, "b");
}

/* A broker that starts again goes on behind the last record that it has. */
TEST(a_restarted_broker_goes_on_from_its_place)
{
    struct journal_place before, after;
    struct pair *p = *state;

    sets_post(&p->s[0], "news", 1, 1);
    follow(p, 1);
    sets_post(&p->s[1], "news", 2, 1);
    for (int i = 0; i < 2; i++) {
        log_place(registry_log(p->s[i].registry), &before);
        sets_close(&p->s[i]);
        sets_open(&p->s[i]);
        log_place(registry_log(p->s[i].registry), &after);
        assert_true(after.n > 0);
        assert_memory_equal(&after, &before, sizeof(after));
    }
    sets_post(&p->s[0], "news", 3, 1);
    assert_int_equal(sets_head(&p->s[0], "news").last, 3);
    sets_post(&p->s[1], "news", 4, 1);
    follow(p, 0);
    assert_equal_sets(p, "news");
    log_place(registry_log(p->s[1].registry), &after);
    assert_int_equal(after.n, p->all.n);
}

/* A copy that goes on alone would have another history than the others, and a
 * broker with sets of its own is no copy. */
TEST(a_copy_and_a_single_broker_are_not_mistaken)
{
    struct pair *p = *state;
    struct problem why = {""};
    struct tempdir single;

    sets_post(&p->s[0], "news", 1, 1);
    sets_close(&p->s[0]);
    p->s[0].journal = NULL;
    assert_int_equal(sets_try_open(&p->s[0], &why), STATUS_REFUSED);
    assert_non_null(strstr(why.text, "is a copy of a cluster"));
    p->s[0].journal = &p->seats[0].journal;
    sets_open(&p->s[0]);

    tempdir_open(&single);
    sets_close(&p->s[1]);
    sets_configure(&p->s[1], single.path);
    p->s[1].journal = NULL;
    sets_open(&p->s[1]);
    sets_post(&p->s[1], "news", 1, 1);
    sets_close(&p->s[1]);
    p->s[1].journal = &p->seats[1].journal;
    assert_int_equal(sets_try_open(&p->s[1], &why), STATUS_REFUSED);
    assert_non_null(strstr(why.text, "has sets that are not of the cluster"));
    tempdir_close(&single);
    sets_configure(&p->s[1], p->dirs[1].path);
    p->s[1].journal = &p->seats[1].journal;
    sets_open(&p->s[1]);
}
