/*
 * foreign_acts_test.c - two registries that share a journal: one of them does
 * something to a set, and the other one follows.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/log/list_file.h"
#include "broker/sets/framework_events.h"
#include "broker/sets/settings.h"
#include "proto/resourcesync/fragment.h"
#include "tests/support/set_changes.h"
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

/* `description_sets`: of the configuration; 0: the default. */
static struct pair *
pair_open(unsigned description_sets)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    shared_journal_init(&p->all);
    for (int i = 0; i < 2; i++) {
        tempdir_open(&p->dirs[i]);
        sets_configure(&p->s[i], p->dirs[i].path);
        if (description_sets)
            p->s[i].config.description_sets = description_sets;
        p->s[i].journal = seat_take(&p->seats[i], &p->all);
        sets_open(&p->s[i]);
    }
    return p;
}

static int
pair_setup(void **state)
{
    *state = pair_open(0);
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
    shared_journal_follow(&p->all, p->s[i].registry->log);
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
    assert_true(log_head(p->s[0].registry->framework->log, &a));
    assert_true(log_head(p->s[1].registry->framework->log, &b));
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

    set_changes_put(&p->s[0], "news",
                    "{\"title\":\"News\",\"rotateEntries\":2}");
    follow(p, 1);
    registry_settings(sets_find(&p->s[1], "news"), &settings);
    assert_string_equal(settings.title, "News");
    sets_post(&p->s[1], "news", 1, 3);
    assert_int_equal(sets_head(&p->s[1], "news").list, 2);
    follow(p, 0);
    assert_equal_sets(p, "news");
}

/* the report of a harvester is at every broker, also of a set that
 * begins with it, and gone with the set. */
TEST(a_harvest_is_told_everywhere)
{
    static const char text[] = "{\"source\":\"http://example.org/\","
                               "\"kind\":\"rss\",\"left_out\":3,"
                               "\"last_look\":\"2026-04-01T18:10:00Z\"}";
    struct pair *p = *state;
    struct harvest *harvest = NULL;

    assert_int_equal(harvest_read(&harvest, SLICE(text), NULL), STATUS_OK);
    set_changes_harvest(&p->s[0], "news", harvest);
    follow(p, 1);
    assert_equal_sets(p, "news");
    harvest = registry_harvest(sets_find(&p->s[1], "news"));
    assert_int_equal(harvest->left_out, 3);
    harvest_unref(harvest);
    set_changes_harvest(&p->s[1], "news", NULL);
    follow(p, 0);
    assert_null(registry_harvest(sets_find(&p->s[0], "news")));
}

/* A round that another broker was before begins anew: a change of settings then
 * changes those of the other broker. */
TEST(a_change_that_comes_too_late_keeps_settings_of_another_broker)
{
    struct pair *p = *state;
    struct settings settings;

    set_changes_put(&p->s[0], "news",
                    "{\"title\":\"News\",\"rotateEntries\":5}");
    follow(p, 1);
    p->seats[0].is_presumed = true;
    assert_int_equal(set_changes_try(&p->s[1], "news", SET_CHANGE_MERGE,
                                     "{\"rotateEntries\":2}"),
                     STATUS_OK);
    assert_int_equal(set_changes_try(&p->s[0], "news", SET_CHANGE_MERGE,
                                     "{\"title\":\"More\"}"),
                     STATUS_OK);
    assert_int_equal(p->all.n_conflicts, 1);
    follow(p, 1);
    for (int i = 0; i < 2; i++) {
        registry_settings(sets_find(&p->s[i], "news"), &settings);
        assert_string_equal(settings.title, "More");
        assert_int_equal(settings.limits.entries, 2);
        assert_false(atomic_load(&sets_find(&p->s[i], "news")->is_unread));
    }
}

/* Another broker makes the set first, private or not, and so the set stays. */
TEST(a_set_that_was_made_too_late_is_as_private_as_the_first)
{
    struct pair *p = *state;

    assert_int_equal(set_changes_try(&p->s[1], "secret", SET_CHANGE_CREATE,
                                     "{\"private\":true}"),
                     STATUS_OK);
    p->seats[0].is_presumed = true;
    assert_int_equal(set_changes_try(&p->s[0], "secret", SET_CHANGE_CREATE,
                                     "{\"private\":true}"),
                     STATUS_CONFLICT);
    assert_true(set_is_private(sets_find(&p->s[0], "secret")));
    sets_post(&p->s[1], "open", 1, 1);
    p->seats[0].is_presumed = true;
    assert_int_equal(set_changes_try(&p->s[0], "open", SET_CHANGE_CREATE,
                                     "{\"private\":true}"),
                     STATUS_CONFLICT);
    assert_false(set_is_private(sets_find(&p->s[0], "open")));
    assert_int_equal(p->all.n_conflicts, 2);
}

/* A private set is private before any thread can find it. */
TEST(a_private_set_is_private_everywhere)
{
    struct pair *p = *state;

    set_changes_put(&p->s[0], "secret", "{\"private\":true}");
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
    set_changes_remove(&p->s[0], "news");
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
    set_changes_put(&p->s[0], "b", "{\"title\":\"B\"}");
    sets_rotate(&p->s[0], "a");
    set_changes_remove(&p->s[0], "b");
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
        log_place(p->s[i].registry->log, &before);
        sets_close(&p->s[i]);
        sets_open(&p->s[i]);
        log_place(p->s[i].registry->log, &after);
        assert_true(after.n > 0);
        assert_memory_equal(&after, &before, sizeof(after));
    }
    sets_post(&p->s[0], "news", 3, 1);
    assert_int_equal(sets_head(&p->s[0], "news").last, 3);
    sets_post(&p->s[1], "news", 4, 1);
    follow(p, 0);
    assert_equal_sets(p, "news");
    log_place(p->s[1].registry->log, &after);
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

/* The addresses in the framework log, one a line, with what happened to them.
 */
static char *
told(struct sets *s)
{
    struct log *log = s->registry->log;
    struct log_set *set = s->registry->framework->log;
    struct buf text;
    struct batch *b;
    struct problem why;
    uint64_t after = 0;

    buf_init(&text, SIZE_MAX);
    while (!log_read(log, set, after, LOG_DISK, &b, &why) && b) {
        for (; after < b->last; after++) {
            struct slice entry = batch_slice(b, after, after + 1);
            struct slice loc = fragment_loc(entry);

            buf_add_format(
                &text, "%s %.*s\n",
                change_kind_names[fragment_kind(
                    entry.data, b->entries[after + 1 - b->first].stamp)],
                SLICE_ARG(loc));
        }
        batch_unref(b);
    }
    buf_add(&text, "", 1);
    assert_false(text.failed);
    return text.data;
}

/* Parts of the Source Description begin, change and end. */
static void
alter_sets(struct pair *p, bool takes_turns)
{
    static const char *const steps[] = {"+a", "+b", "+c", "+d", "-d", "+e",
                                        "+f", "-e", "-f", "+g", "+h"};

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int poster = takes_turns ? (int)(i % 2) : 0;

        if (steps[i][0] == '+')
            sets_post(&p->s[poster], steps[i] + 1, 1, 1);
        else
            set_changes_remove(&p->s[poster], steps[i] + 1);
        follow(p, !poster);
    }
    /* A broker publishes events after it has answered the post that caused
     * them, and before it answers the next one. */
    for (int poster = 0; poster < 2; poster++) {
        sets_post(&p->s[poster], "h", 1, 1);
        follow(p, !poster);
    }
}

/* brokers that take turns announce what one of them would. */
TEST(events_are_those_of_one_broker)
{
    char *texts[3];
    void *pair;

    (void)state;
    for (int takes_turns = 0; takes_turns < 2; takes_turns++) {
        struct pair *p = pair_open(2);

        alter_sets(p, takes_turns);
        texts[takes_turns] = told(&p->s[0]);
        texts[2] = told(&p->s[1]);
        assert_string_equal(texts[2], texts[takes_turns]);
        free(texts[2]);
        pair = p;
        pair_teardown(&pair);
    }
    assert_non_null(strstr(texts[0], "deleted " SETS_URL "/descriptions/"));
    assert_string_equal(texts[1], texts[0]);
    free(texts[0]);
    free(texts[1]);
}

/* Broker 1 has all, also the events of the last round of broker 0: the log
 * answers a post before it notes them, and notes them before its next round. */
static void
follow_whole_rounds(struct pair *p)
{
    static unsigned n;

    sets_post(&p->s[0], "other", ++n, 1);
    follow(p, 1);
}

/* W-120: a topic ends with its last event. A broker that follows knows that
 * event, also if it knew an earlier one. */
TEST(the_last_event_is_known_everywhere)
{
    struct pair *p = *state;
    struct set *news[2];

    sets_post(&p->s[0], "other", 1, 1);
    sets_post(&p->s[0], "news", 1, 1);
    follow_whole_rounds(p);
    for (int i = 0; i < 2; i++)
        news[i] = sets_find(&p->s[i], "news");
    assert_true(framework_event_last(news[0]) > 0);
    assert_int_equal(framework_event_last(news[1]),
                     framework_event_last(news[0]));
    sets_rotate(&p->s[0], "news");
    sets_post(&p->s[0], "another", 1, 1);
    follow_whole_rounds(p);
    assert_int_equal(atomic_load(&news[1]->last_event),
                     atomic_load(&news[0]->last_event));
    assert_int_equal(framework_event_last(news[1]),
                     framework_event_last(news[0]));
    set_changes_remove(&p->s[0], "news");
    assert_false(framework_event_is_over(news[1]));
    follow_whole_rounds(p);
    assert_true(framework_event_is_over(news[1]));
    assert_int_equal(atomic_load(&news[1]->last_event),
                     atomic_load(&news[0]->last_event));
}

static void
assert_file_bytes(struct pair *p, int i)
{
    struct head head = sets_head(&p->s[i], "news");
    uint64_t bytes = 0;
    int fd;

    assert_int_equal(log_folder(p->s[i].registry->log,
                                sets_find(&p->s[i], "news")->log, LOG_CHANGES,
                                false, &fd, NULL),
                     STATUS_OK);
    for (uint64_t list = head.first_list; list < head.list; list++)
        bytes += list_file_size(fd, list);
    close(fd);
    assert_true(bytes > 0);
    assert_int_equal(head.file_bytes, bytes);
}

/* Each broker has files of its own, and may not have one yet when another
 * broker retires the list. */
TEST(retired_files_are_counted_where_they_are)
{
    struct pair *p = *state;

    for (unsigned i = 0; i < 4; i++) {
        sets_post(&p->s[0], "news", 1 + i, 1 + i);
        sets_rotate(&p->s[0], "news");
        if (i == 0)
            follow(p, 1);
        if (i == 0)
            sets_file_all(&p->s[1]);
    }
    sets_file_all(&p->s[0]);
    atomic_store(&sets_find(&p->s[0], "news")->retain_lists, 2);
    sets_retain(&p->s[0]); /* waits for the state */
    sets_fold_all(&p->s[0]);
    sets_retain(&p->s[0]);
    assert_int_equal(sets_head(&p->s[0], "news").first_list, 3);
    assert_file_bytes(p, 0);
    follow(p, 1); /* list 2 has no file here */
    assert_int_equal(sets_head(&p->s[1], "news").first_list, 3);
    assert_int_equal(sets_head(&p->s[1], "news").file_bytes, 0);
    sets_file_all(&p->s[1]);
    assert_file_bytes(p, 1);
    sets_close(&p->s[1]);
    sets_open(&p->s[1]);
    assert_file_bytes(p, 1);
}
