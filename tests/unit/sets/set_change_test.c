#include "broker/sets/set_change.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/readers/message.h"
#include "broker/sets/settings.h"
#include "broker/sets/upstream_topics.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

/* The outcome of a change. */
struct outcome {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done;
    enum status status;
    bool is_birth;
    struct set *set;
};

#define OUTCOME                             \
    {                                       \
        .mutex = PTHREAD_MUTEX_INITIALIZER, \
        .changed = PTHREAD_COND_INITIALIZER \
    }

static void
on_done(struct set_change *a, void *user)
{
    struct outcome *o = user;

    pthread_mutex_lock(&o->mutex);
    o->status = a->post.status;
    o->is_birth = a->post.is_birth;
    o->set = a->set;
    o->is_done = true;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->mutex);
    set_change_free(a);
}

static enum status
wait_for(struct outcome *o)
{
    pthread_mutex_lock(&o->mutex);
    while (!o->is_done)
        pthread_cond_wait(&o->changed, &o->mutex);
    pthread_mutex_unlock(&o->mutex);
    return o->status;
}

static enum status
submit(enum set_change_mode mode, const char *name, const char *settings,
       void (*done)(struct set_change *, void *), struct outcome *o)
{
    struct set_change_wish wish = {
        .mode = mode, .name = slice_of(name), .body = slice_of(settings)};

    return set_change_settings(s.registry, &wish, done, o, NULL);
}

static struct outcome
alter(enum set_change_mode mode, const char *name, const char *settings)
{
    struct outcome o = OUTCOME;

    assert_int_equal(submit(mode, name, settings, on_done, &o), STATUS_OK);
    assert_int_equal(wait_for(&o), STATUS_OK);
    return o;
}

static struct outcome
put(const char *name, const char *settings)
{
    return alter(SET_CHANGE_REPLACE, name, settings);
}

static void
end_set(const char *name)
{
    struct outcome o = OUTCOME;

    assert_int_equal(
        set_change_remove(sets_find(&s, name), NULL, on_done, &o, NULL),
        STATUS_OK);
    assert_int_equal(wait_for(&o), STATUS_OK);
}

FIXTURE(stage_open, stage_close);

/* A look at the settings shows those of the last commit, after a restart,
 * too. */
TEST(publishes_what_was_committed)
{
    struct settings settings;
    struct outcome o;

    o = put("demo", "{\"title\":\"A\",\"rotateAge\":5}");
    assert_true(o.is_birth);
    o = put("demo", "{\"title\":\"B\",\"rotateEntries\":2}");
    assert_false(o.is_birth);
    for (int round = 0; round < 2; round++) {
        registry_settings(sets_find(&s, "demo"), &settings);
        assert_string_equal(settings.title, "B");
        assert_int_equal(settings.limits.entries, 2);
        assert_int_equal(settings.rotate_age_us, s.config.rotate_age_us);
        assert_int_equal(atomic_load(&sets_find(&s, "demo")->rotate_age_us),
                         s.config.rotate_age_us);
        assert_true(sets_head(&s, "demo").changed_us >=
                    sets_head(&s, "demo").created_us);
        stage_restart();
    }
    sets_post(&s, "demo", 1, 4);
    assert_int_equal(sets_head(&s, "demo").list, 3);
}

static enum status
refused_for(const char *name, const char *text, const char *part)
{
    struct problem why = {""};
    struct set_change_wish wish = {.name = slice_of(name),
                                   .body = slice_of(text)};
    enum status rc = set_change_settings(s.registry, &wish, NULL, NULL, &why);

    assert_true(rc != STATUS_OK);
    if (!strstr(why.text, part))
        fail_msg("\"%s\" has no \"%s\"", why.text, part);
    return rc;
}

#define UPSTREAM(url) "{\"upstreamTopic\":\"" url "\"}"

static struct set *
upstream(const char *url)
{
    return upstreams_find(&s.registry->upstreams, slice_of(url));
}

/* One set may follow a topic; a second one, or a topic of our own, is refused
 * (422). */
TEST(a_foreign_topic_belongs_to_one_set)
{
    (void)put("one", UPSTREAM("http://a.example/~t"));
    for (int round = 0; round < 2; round++) {
        assert_ptr_equal(upstream("http://A.example:80/%7et"),
                         sets_find(&s, "one"));
        assert_int_equal(refused_for("two", UPSTREAM("http://a.example/%7Et"),
                                     "upstreamTopic: \"http://a.example/%7Et\" "
                                     "is the topic of set one already"),
                         STATUS_INVALID);
        (void)put("one", UPSTREAM("http://a.example/~t"));
        stage_restart();
    }
    (void)alter(SET_CHANGE_MERGE, "one", "{\"title\":\"A\"}");
    assert_ptr_equal(upstream("http://a.example/~t"), sets_find(&s, "one"));
    (void)alter(SET_CHANGE_MERGE, "one", "{\"upstreamTopic\":null}");
    assert_null(upstream("http://a.example/~t"));
    (void)alter(SET_CHANGE_MERGE, "one", UPSTREAM("http://a.example/~t"));
    assert_ptr_equal(upstream("http://a.example/~t"), sets_find(&s, "one"));
    (void)put("one", UPSTREAM("http://a.example/other"));
    assert_null(upstream("http://a.example/~t"));
    (void)put("two", UPSTREAM("http://a.example/~t"));
    assert_ptr_equal(upstream("http://a.example/~t"), sets_find(&s, "two"));
    (void)put("one", "{}");
    assert_null(upstream("http://a.example/other"));

    refused_for("one", UPSTREAM(SETS_URL "/sets/one/notifications"),
                "is of this broker itself");
    refused_for("one", UPSTREAM("HTTP://Example.ORG:80/x"),
                "is of this broker itself");
    refused_for("one", "{\"hubs\":[\"" SETS_URL "/hub\"]}",
                "is this broker's own");
    /* Deliveries there would be new changes of the set, for ever. */
    refused_for("one", "{\"hubs\":[\"" SETS_URL "/sets/one/changes\"]}",
                "is this broker's own");
    refused_for("one", "{\"hubs\":[\"" SETS_URL "/hub?x\"]}",
                "is this broker's own");
}

static bool
was_removed(struct slice name)
{
    bool was;

    registry_look(s.registry, name, NULL, &was);
    return was;
}

/* registry.h: a set that is made again is another struct; the old one stays as
 * it was, for its readers. */
TEST(makes_another_set_after_a_removal)
{
    struct set *before, *after;
    struct head head;

    before = sets_post(&s, "demo", 1, 3);
    sets_rotate(&s, "demo");
    assert_false(was_removed(SLICE("demo")));
    end_set("demo");
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
    assert_true(was_removed(SLICE("demo")));
    assert_false(was_removed(SLICE("other")));

    after = sets_post(&s, "demo", 1, 1);
    assert_ptr_not_equal(after, before);
    assert_false(was_removed(SLICE("demo")));
    assert_int_equal(sets_head(&s, "demo").start_list, 3);
    assert_int_equal(sets_head(&s, "demo").last, 1);
    assert_false(log_head(before->log, &head));
    assert_int_equal(head.last, 3);

    end_set("demo");
    stage_restart();
    assert_true(was_removed(SLICE("demo")));
    sets_post(&s, "demo", 1, 1);
    assert_int_equal(sets_head(&s, "demo").start_list, 4);
}

/* A publisher that never stops, while its set is removed again and again: every
 * post is answered, and is in one set or the next. */
struct posting {
    atomic_bool is_over;
    unsigned n_refused;
};

static void *
post_on(void *user)
{
    static const char body[] =
        "[{\"loc\":\"http://example.com/r/1\",\"change\":\"updated\"}]";
    struct posting *p = user;

    while (!atomic_load(&p->is_over))
        p->n_refused +=
            sets_post_body(&s, "demo", "application/json", slice_of(body), 0)
                .rc != STATUS_OK;
    return NULL;
}

TEST(posts_that_wait_behind_a_removal_begin_a_new_set)
{
    struct posting p[2];
    pthread_t threads[2];
    unsigned n_removed = 0;

    sets_post(&s, "demo", 1, 1);
    for (int i = 0; i < 2; i++) {
        p[i].n_refused = 0;
        atomic_init(&p[i].is_over, false);
        assert_int_equal(pthread_create(&threads[i], NULL, post_on, &p[i]), 0);
    }
    while (n_removed < 50) {
        struct set *set = registry_find(s.registry, SLICE("demo"), NULL);
        struct outcome o = OUTCOME;

        if (!set)
            continue;
        assert_int_equal(set_change_remove(set, NULL, on_done, &o, NULL),
                         STATUS_OK);
        n_removed += wait_for(&o) == STATUS_OK;
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&p[i].is_over, true);
        pthread_join(threads[i], NULL);
        assert_int_equal(p[i].n_refused, 0);
    }
}

/* Settings, too. */
TEST(settings_that_wait_behind_a_removal_begin_a_new_set)
{
    struct outcome settings = OUTCOME, removal = OUTCOME;
    struct set *before;

    before = sets_post(&s, "demo", 1, 1);
    assert_int_equal(set_change_remove(before, NULL, on_done, &removal, NULL),
                     STATUS_OK);
    assert_int_equal(submit(SET_CHANGE_REPLACE, "demo", "{\"title\":\"B\"}",
                            on_done, &settings),
                     STATUS_OK);
    assert_int_equal(wait_for(&removal), STATUS_OK);
    assert_int_equal(wait_for(&settings), STATUS_OK);
    assert_true(settings.is_birth);
    assert_ptr_not_equal(settings.set, before);
    assert_ptr_equal(sets_find(&s, "demo"), settings.set);
}

/* A reader of a removed set gets STATUS_GONE, from whichever tier it reads
 * next: the rows and files may go at any moment. */
TEST(a_reader_of_a_removed_set_hears_so)
{
    struct message_wish wish = {
        .upto = UINT64_MAX, .max_bytes = 1 << 20, .patience = LOG_DISK};
    struct problem why = {""};
    struct batch *b = NULL;
    struct buf text;
    uint64_t last;

    s.config.remove_grace_us = 0;
    wish.set = sets_post(&s, "demo", 1, 3);
    sets_rotate(&s, "demo");
    sets_file_all(&s);
    end_set("demo");
    buf_init(&text, 1 << 20);
    assert_int_equal(message_write(&text, &wish, &last, &why), STATUS_GONE);
    assert_string_equal(why.text, "the set demo was removed");
    wish.is_heartbeat = true;
    assert_int_equal(message_write(&text, &wish, &last, &why), STATUS_GONE);
    assert_int_equal(text.size, 0);
    buf_fini(&text);
    sets_purge(&s);
    assert_int_equal(
        log_read(s.registry->log, wish.set->log, 0, LOG_DISK, &b, &why),
        STATUS_GONE);
    assert_null(b);
}

/* The log thread waits at the gate until the test has submitted the rest. */
static sem_t gate, at_gate;

static void
on_done_at_the_gate(struct set_change *a, void *user)
{
    sem_post(&at_gate);
    sem_wait(&gate);
    on_done(a, user);
}

/* Submits settings and waits until the log thread is at the gate: it has
 * committed them alone. */
static void
hold_log_thread(const char *name, struct outcome *first)
{
    sem_init(&gate, 0, 0);
    sem_init(&at_gate, 0, 0);
    assert_int_equal(
        submit(SET_CHANGE_REPLACE, name, "{}", on_done_at_the_gate, first),
        STATUS_OK);
    sem_wait(&at_gate);
}

/* Log thread: somebody else takes the place that the removal made. */
static void
on_removed_taking(struct set_change *a, void *user)
{
    sets_unborn(&s, "taken");
    on_done(a, user);
}

/* Settings that wait behind a removal are refused like others if another set
 * has taken the last place meanwhile. */
TEST(settings_find_no_place_behind_a_removal)
{
    struct outcome first = OUTCOME, settings = OUTCOME, removal = OUTCOME;
    struct set *more = NULL;

    sets_post(&s, "demo", 1, 1);
    for (unsigned i = 1; i < SETS_MAX; i++) {
        char name[16];

        snprintf(name, sizeof(name), "s%05u", i);
        sets_unborn(&s, name);
    }
    assert_int_equal(
        registry_make(s.registry, SLICE("one-more"), NULL, &more, NULL),
        STATUS_INVALID);
    hold_log_thread("demo", &first);
    assert_int_equal(set_change_remove(sets_find(&s, "demo"), NULL,
                                       on_removed_taking, &removal, NULL),
                     STATUS_OK);
    assert_int_equal(
        submit(SET_CHANGE_REPLACE, "demo", "{}", on_done, &settings),
        STATUS_OK);
    sem_post(&gate);
    assert_int_equal(wait_for(&first), STATUS_OK);
    assert_int_equal(wait_for(&removal), STATUS_OK);
    assert_int_equal(wait_for(&settings), STATUS_INVALID);
    assert_null(settings.set);
}

/* The log thread applies each change to the result of the one before, even if
 * one commit could take them all. */
TEST(changes_at_once_do_not_undo_each_other)
{
    struct outcome first = OUTCOME, a = OUTCOME, b = OUTCOME, again = OUTCOME;
    struct settings settings;

    sets_post(&s, "demo", 1, 1);
    hold_log_thread("other", &first);
    assert_int_equal(submit(SET_CHANGE_MERGE, "demo",
                            "{\"title\":\"A\",\"rotateEntries\":5}", on_done,
                            &a),
                     STATUS_OK);
    assert_int_equal(submit(SET_CHANGE_MERGE, "demo",
                            "{\"title\":\"B\",\"rotateBytes\":1048576}",
                            on_done, &b),
                     STATUS_OK);
    assert_int_equal(
        submit(SET_CHANGE_CREATE, "demo", "{\"title\":\"C\"}", on_done, &again),
        STATUS_OK);
    sem_post(&gate);
    assert_int_equal(wait_for(&first), STATUS_OK);
    assert_int_equal(wait_for(&a), STATUS_OK);
    assert_int_equal(wait_for(&b), STATUS_OK);
    assert_int_equal(wait_for(&again), STATUS_CONFLICT);
    for (int round = 0; round < 2; round++) {
        registry_settings(sets_find(&s, "demo"), &settings);
        assert_string_equal(settings.title, "B");
        assert_int_equal(settings.limits.entries, 5);
        assert_int_equal(settings.limits.bytes, 1048576);
        stage_restart();
    }
}

/* A change is of one set: it makes none, and does not go over to the next set
 * of the name. */
TEST(a_change_ends_with_its_set)
{
    struct outcome first = OUTCOME, change = OUTCOME, removal = OUTCOME;

    assert_int_equal(submit(SET_CHANGE_MERGE, "demo", "{}", NULL, NULL),
                     STATUS_NOT_FOUND);
    sets_post(&s, "demo", 1, 1);
    hold_log_thread("other", &first);
    assert_int_equal(
        set_change_remove(sets_find(&s, "demo"), NULL, on_done, &removal, NULL),
        STATUS_OK);
    assert_int_equal(
        submit(SET_CHANGE_MERGE, "demo", "{\"title\":\"A\"}", on_done, &change),
        STATUS_OK);
    sem_post(&gate);
    assert_int_equal(wait_for(&first), STATUS_OK);
    assert_int_equal(wait_for(&removal), STATUS_OK);
    assert_int_equal(wait_for(&change), STATUS_GONE);
    assert_null(registry_find(s.registry, SLICE("demo"), NULL));
}

/* A caller needs a set that others may be making, or have made with other
 * settings. */
TEST(a_set_is_made_unless_it_is_there)
{
    struct settings settings;
    struct set *made = NULL, *again = NULL;
    struct problem why = {""};

    assert_int_equal(
        set_change_make(s.registry, SLICE("demo"), NULL, &made, &why),
        STATUS_OK);
    assert_ptr_equal(sets_find(&s, "demo"), made);
    put("demo", "{\"title\":\"A title\",\"rotateEntries\":7}");

    assert_int_equal(
        set_change_make(s.registry, SLICE("demo"), NULL, &again, &why),
        STATUS_OK);
    assert_ptr_equal(again, made);
    registry_settings(made, &settings);
    assert_string_equal(settings.title, "A title");
    sets_post(&s, "demo", 1, 7); /* the limits are still those */
    sets_post(&s, "demo", 8, 1);
    assert_int_equal(sets_head(&s, "demo").list, 2);

    stage_restart();
    registry_settings(sets_find(&s, "demo"), &settings);
    assert_string_equal(settings.title, "A title");

    end_set("demo");
    assert_int_equal(
        set_change_make(s.registry, SLICE("demo"), NULL, &again, &why),
        STATUS_OK);
    registry_settings(again, &settings);
    assert_string_equal(settings.title, "");
    assert_int_equal(
        set_change_make(s.registry, SLICE("-"), NULL, &again, &why),
        STATUS_NOT_FOUND);
}
