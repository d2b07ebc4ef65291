/*
 * watch_test.c - when a watch looks, waits and posts.
 */
#include "client/watch/watch.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/watch/watch_db.h"
#include "tests/clock.h"
#include "tests/support/fake_broker.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define MS ((int64_t)1000)

/* Of watch.c and post_queue.c. */
#define LOOK_ROUND_US  (5000 * MS)
#define PAUSE_FIRST_US (500 * MS)

/* The watched directory is above/files of the test's own. */
struct stage {
    struct tempdir home;
    int files; /* a descriptor */
    char dir[300], state[300];
    struct fake_broker *broker;
    struct watch_options options;
    struct watch *watch;
    pthread_t thread;
    const struct problem *why;
    atomic_uint n_warnings, n_posts;
    atomic_size_t n_entries; /* of all posts */
};

static void
on_ready(unsigned n_folders, void *user)
{
    (void)n_folders;
    (void)user;
}

static void
on_posted(const struct td_receipt *receipt, size_t n_entries, void *user)
{
    struct stage *s = user;

    (void)receipt;
    atomic_fetch_add(&s->n_entries, n_entries);
    atomic_fetch_add(&s->n_posts, 1);
}

static void
on_warning(const char *text, void *user)
{
    struct stage *s = user;

    (void)text;
    atomic_fetch_add(&s->n_warnings, 1);
}

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    tempdir_open(&s->home);
    assert_int_equal(mkdirat(s->home.fd, "above", 0755), 0);
    assert_int_equal(mkdirat(s->home.fd, "above/files", 0755), 0);
    s->files = openat(s->home.fd, "above/files", O_RDONLY | O_DIRECTORY);
    assert_true(s->files >= 0);
    snprintf(s->dir, sizeof(s->dir), "%s/above/files", s->home.path);
    snprintf(s->state, sizeof(s->state), "%s/state", s->home.path);
    s->broker = fake_broker_new();
    s->options = (struct watch_options){
        .dir = s->dir,
        .set_url = fake_broker_url(s->broker),
        .base_uri = "http://example.com/",
        .state = s->state,
        .client = td_open(),
        .on_ready = on_ready,
        .on_posted = on_posted,
        .on_warning = on_warning,
        .user = s,
    };
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    watch_free(s->watch);
    td_close(s->options.client);
    fake_broker_free(s->broker);
    close(s->files);
    tempdir_close(&s->home);
    free(s);
    return 0;
}

static void
accept_posts(struct stage *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        fake_answer(s->broker, 200, "application/json",
                    "{\"set\":\"news\",\"first\":1,\"last\":3,"
                    "\"position\":\"0123456789abcdef-3\","
                    "\"datetime\":\"2026-01-01T00:00:03.000000Z\"}");
}

static void *
run(void *user)
{
    struct stage *s = user;

    s->why = watch_run(s->watch);
    return NULL;
}

static void
start(struct stage *s)
{
    s->watch = watch_new(&s->options);
    assert_non_null(s->watch);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

static void
join(struct stage *s, enum status rc)
{
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    if (s->why->rc != rc)
        fail_msg("%d: %s", s->why->rc, s->why->text);
}

/* Waits until the broker has taken `n_posts`, and the watch waits for inotify.
 */
static void
await_rest(struct stage *s, unsigned n_posts)
{
    AWAIT(atomic_load(&s->n_posts) >= n_posts);
    clock_await_us(LOOK_ROUND_US);
}

FIXTURE(set_stage, clear_stage);

/* inotify reports nothing of a folder above the directory: the watch looks by
 * itself, and does not post the files as deleted. */
TEST(ends_when_a_folder_above_was_moved)
{
    struct stage *s = *state;

    tempdir_write(s->files, "a.txt", "a");
    accept_posts(s, 2);
    fake_broker_start(s->broker);
    start(s);
    await_rest(s, 1);
    assert_int_equal(renameat(s->home.fd, "above", s->home.fd, "moved"), 0);
    clock_pass_us(LOOK_ROUND_US);
    join(s, STATUS_IO);
    assert_non_null(strstr(s->why->text, "was removed, moved or"));
    assert_int_equal(s->n_entries, 1);
}

/* The watch hears of files while it waits for the broker, and posts them when
 * the broker is back, at its next look at the latest. */
TEST(hears_while_the_broker_is_away)
{
    struct stage *s = *state;

    tempdir_write(s->files, "a.txt", "a");
    fake_nothing(s->broker);
    accept_posts(s, 2);
    fake_broker_start(s->broker);
    start(s);
    AWAIT(atomic_load(&s->n_warnings) == 1);
    clock_await_us(PAUSE_FIRST_US);
    tempdir_write(s->files, "b.txt", "b");
    clock_pass_us(PAUSE_FIRST_US);
    await_rest(s, 1);
    clock_pass_us(LOOK_ROUND_US);
    await_rest(s, 2);
    assert_non_null(strstr(fake_request(s->broker, 1), "/a.txt\""));
    assert_non_null(strstr(fake_request(s->broker, 2), "/b.txt\""));
    watch_stop(s->watch);
    join(s, STATUS_OK);
    assert_int_equal(s->n_entries, 2);
}

TEST(can_be_stopped_while_the_broker_is_away)
{
    struct stage *s = *state;

    tempdir_write(s->files, "a.txt", "a");
    fake_nothing(s->broker);
    fake_broker_start(s->broker);
    start(s);
    AWAIT(atomic_load(&s->n_warnings) == 1);
    clock_await_us(PAUSE_FIRST_US);
    watch_stop(s->watch);
    join(s, STATUS_OK);
    assert_int_equal(s->n_posts, 0);
}

/* More files than a post holds: the first post comes while others are still to
 * be looked at. If that fails, nothing more is looked at. */
TEST(posts_many_files_in_parts)
{
    struct stage *s = *state;
    char name[20];

    for (unsigned i = 0; i <= POST_QUEUE_ENTRIES_MAX; i++) {
        snprintf(name, sizeof(name), "%u.txt", i);
        tempdir_write(s->files, name, "");
    }
    s->options.is_once = true;
    fake_nothing(s->broker);
    accept_posts(s, 2);
    fake_broker_start(s->broker);
    start(s);
    join(s, STATUS_IO);
    assert_int_equal(s->n_posts, 0);
    watch_free(s->watch);

    start(s);
    join(s, STATUS_OK);
    assert_int_equal(s->n_posts, 2);
    assert_int_equal(s->n_entries, POST_QUEUE_ENTRIES_MAX + 1);
}
