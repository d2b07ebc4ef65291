/*
 * watch_faults_test.c - tidings watch while things go wrong: nothing is lost,
 * nothing is posted twice, and nothing is told to be deleted that is only away.
 *
 * The moments of the kills are random; the seed is printed, and TIDINGS_SEED=N
 * repeats the choices of a run.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/patience.h"
#include "tests/support/watched.h"
#include "tests/test.h"

#define RENAMES       10000
#define ROUNDS        16
#define CHURN_FILES   40
#define CHURN_FOLDERS 4
#define KILL_MAX_MS   800

/* Asserts that the watch ends by itself, with status 1 and these words, and
 * that it posted nothing more than `n` entries. */
static void
assert_ends(struct watched *w, const char *words, uint64_t n)
{
    assert_int_equal(command_end(&w->command), 1);
    if (!strstr(w->command.err_text, words))
        fail_msg("\"%s\" is not in: %s", words, w->command.err_text);
    fold_read(&w->fold);
    assert_int_equal(w->fold.last, n);
}

FIXTURE(watched_setup, watched_teardown);

/* While the broker is away, changes wait; the last state of
 * each file is posted, once, when it is back. */
TEST(waits_for_a_broker_that_is_away)
{
    struct watched *w = *state;

    watched_write(w, "a", "a");
    watched_write(w, "b", "b");
    WATCHED_START_PLAINLY(w);
    fold_await(&w->fold, w->dir);

    broker_stop(&w->broker);
    watched_write(w, "a", "a changed");
    watched_write(w, "c", "c");
    watched_unlink(w, "b");
    watched_mkdir(w, "folder");
    watched_write(w, "folder/d", "d");
    broker_restart(&w->broker);
    fold_await(&w->fold, w->dir);
    assert_int_equal(fold_count(&w->fold, "c"), 1);
    watched_stop(w);

    /* And it can be told to end while it waits. */
    broker_stop(&w->broker);
    WATCHED_START_PLAINLY(w);
    watched_write(w, "e", "e");
    watched_stop(w);
    assert_int_equal(WATCHED_RUN(w, "--once"), 1);
    broker_restart(&w->broker);
    assert_int_equal(WATCHED_RUN(w, "--once"), 0);
    fold_await(&w->fold, w->dir);
    assert_int_equal(fold_count(&w->fold, "e"), 1);
}

/* Random numbers: the same for the same seed. */
static uint32_t
next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

/* One random change of the tree; most of them fail where there is nothing to
 * change, which is fine. */
static void
churn_once(const char *dir, uint64_t *random)
{
    char a[400], b[400], text[40];
    unsigned folder = next_random(random) % CHURN_FOLDERS;
    unsigned other = next_random(random) % CHURN_FOLDERS;
    unsigned file = next_random(random) % CHURN_FILES;
    int fd;

    snprintf(a, sizeof(a), "%s/d%u/f%u", dir, folder, file);
    snprintf(b, sizeof(b), "%s/d%u/f%u", dir, other,
             next_random(random) % CHURN_FILES);
    switch (next_random(random) % 12) {
    case 0:
        unlink(a);
        break;
    case 1:
        rename(a, b);
        break;
    case 2:
        /* Not deeper and deeper: on a slow machine a round has no end. */
        snprintf(a, sizeof(a), "%s/d%u/moved/moved/moved", dir, folder);
        if (access(a, F_OK) == 0)
            break;
        snprintf(a, sizeof(a), "%s/d%u", dir, folder);
        snprintf(b, sizeof(b), "%s/d%u/moved", dir, other);
        rename(a, b);
        break;
    case 3:
        snprintf(a, sizeof(a), "%s/d%u/moved", dir, folder);
        snprintf(b, sizeof(b), "%s/d%u", dir, other);
        rename(a, b);
        break;
    default:
        snprintf(b, sizeof(b), "%s/d%u", dir, folder);
        mkdir(b, 0755);
        fd = open(a, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0)
            break;
        snprintf(text, sizeof(text), "%u", next_random(random));
        if (write(fd, text, strlen(text)) < 0)
            abort();
        close(fd);
    }
}

static pid_t
start_churner(const char *dir, uint64_t random)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent) {
        churn_once(dir, &random);
        poll(NULL, 0, (int)(next_random(&random) % 3));
    }
    _exit(0);
}

static void
end_process(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Until the broker has entries that it had not: the watch has not heard of it
 * yet, or has not written it down. */
static void
await_entry(struct watched *w)
{
    struct patience p = {.with = "another entry"};
    uint64_t before = w->fold.last;

    while (w->fold.last == before) {
        patience_look(&p);
        fold_read(&w->fold);
    }
}

/* SIGKILL at any moment, while files change: in the end the
 * set says what the directory holds. */
TEST(loses_nothing_when_it_is_killed)
{
    struct watched *w = *state;
    const char *seed = getenv("TIDINGS_SEED");
    uint64_t random = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);

    print_message("TIDINGS_SEED=%" PRIu64 "\n", random);
    for (unsigned i = 0; i < ROUNDS; i++) {
        pid_t churner = start_churner(w->dir, next_random(&random));

        fold_read(&w->fold); /* what the round before has posted */
        watched_begin(w, (const char *const[]){NULL});
        if (i % 2)
            await_entry(w);
        else
            poll(NULL, 0, (int)(next_random(&random) % KILL_MAX_MS));
        kill(w->command.pid, SIGKILL);
        assert_int_equal(command_end(&w->command), 128 + SIGKILL);
        end_process(churner);
    }
    WATCHED_START_PLAINLY(w);
    fold_await(&w->fold, w->dir);
    watched_stop(w);
}

/* A queue that runs over means looking at everything. */
TEST(looks_at_everything_when_the_queue_ran_over)
{
    struct watched *w = *state;
    FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
    unsigned max = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%u", &max), 1);
    fclose(f);
    if (max > 100000)
        skip();
    watched_mkdir(w, "gone");
    watched_write(w, "gone/a", "a");
    WATCHED_START_PLAINLY(w);
    fold_await(&w->fold, w->dir);

    assert_int_equal(kill(w->command.pid, SIGSTOP), 0);
    for (unsigned i = 0; i < max; i++) /* two news each, never merged */
        watched_write(w, i % 2 ? "odd" : "even", "full");
    watched_mkdir(w, "new");
    watched_write(w, "new/b", "b");
    watched_move(w, "gone", "../gone");
    watched_write(w, "late", "late");
    assert_int_equal(kill(w->command.pid, SIGCONT), 0);
    fold_await(&w->fold, w->dir);
    assert_string_equal(fold_of(&w->fold, "gone/a")->change, "deleted");

    /* And new folders are watched. */
    watched_write(w, "new/b", "changed");
    fold_await_change(&w->fold, "new/b", "updated");
    watched_stop(w);
}

/* In the folder above the directory, which must not be named by it. */
static void
move_above(struct watched *w, const char *from, const char *to)
{
    assert_int_equal(renameat(w->home.fd, from, w->home.fd, to), 0);
}

/* A directory that is gone says nothing of its files: moved
 * away, removed with all that is in it, or another one in its place. */
TEST(ends_when_the_directory_is_gone)
{
    struct watched *w = *state;
    char command[1200];

    watched_mkdir(w, "folder");
    watched_write(w, "folder/a", "a");
    watched_write(w, "b", "b");
    WATCHED_START_PLAINLY(w);
    fold_await(&w->fold, w->dir);
    move_above(w, "files", "moved");
    assert_ends(w, "was removed, moved or unmounted", 2);

    /* Moved while it did not listen, with another one in its place. */
    move_above(w, "moved", "files");
    WATCHED_START_PLAINLY(w);
    assert_int_equal(kill(w->command.pid, SIGSTOP), 0);
    move_above(w, "files", "moved");
    watched_mkdir(w, "");
    watched_write(w, "b", "another b");
    assert_int_equal(kill(w->command.pid, SIGCONT), 0);
    assert_ends(w, "was removed, moved or unmounted", 2);

    snprintf(command, sizeof(command), "rm -r '%s' && mv '%s/moved' '%s'",
             w->dir, w->home.path, w->dir);
    assert_int_equal(system(command), 0);
    WATCHED_START_PLAINLY(w);
    assert_int_equal(kill(w->command.pid, SIGSTOP), 0);
    snprintf(command, sizeof(command), "rm -r '%s'", w->dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(kill(w->command.pid, SIGCONT), 0);
    assert_ends(w, "was removed, moved or unmounted", 2);

    WATCHED_BEGIN(w, "--once");
    assert_ends(w, "No such file or directory", 2);
}

/* An empty directory where files were posted is refused: a
 * file system may not be mounted. */
TEST(does_not_believe_an_empty_directory)
{
    struct watched *w = *state;
    char outside[400];

    snprintf(outside, sizeof(outside), "%s/state", w->home.path);
    watched_write(w, "a", "a");
    assert_int_equal(WATCHED_RUN(w, "--once", "--state", outside), 0);
    watched_unlink(w, "a");
    watched_mkdir(w, "lost+found");

    WATCHED_BEGIN(w, "--once", "--state", outside);
    assert_ends(w, "--allow-empty", 1);
    WATCHED_BEGIN(w, "--state", outside);
    assert_ends(w, "--allow-empty", 1);

    assert_int_equal(
        WATCHED_RUN(w, "--once", "--state", outside, "--allow-empty"), 0);
    fold_await_change(&w->fold, "a", "deleted");
}

/* Unmounted while it is watched, and not mounted at the next
 * start. */
TEST(does_not_believe_a_mount_point)
{
    struct watched *w = *state;
    char outside[400];

    if (unshare(CLONE_NEWNS) ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", w->dir, "tmpfs", 0, "size=1m"))
        skip();
    snprintf(outside, sizeof(outside), "%s/state", w->home.path);
    watched_write(w, "a", "a");
    WATCHED_START(w, "--state", outside);
    fold_await_change(&w->fold, "a", "created");
    watched_mark(w);
    fold_await(&w->fold, w->dir);

    while (umount(w->dir)) { /* busy while a file is being read */
        assert_int_equal(errno, EBUSY);
        poll(NULL, 0, 10);
    }
    assert_ends(w, "unmounted", 2);
    WATCHED_BEGIN(w, "--state", outside);
    assert_ends(w, "is a file system not mounted?", 2);
}

/* No more watches: which setting, and how much it is. */
TEST(names_the_limit_of_watches)
{
    struct watched *w = *state;
    const char *argv[] = {"/usr/bin/unshare",
                          "--user",
                          "--map-root-user",
                          "/bin/sh",
                          "-c",
                          "echo 3 > /proc/sys/user/max_inotify_watches || exit "
                          "77; exec \"$0\" watch \"$1\" \"$2\" --base-uri "
                          "http://example.com/",
                          BIN_DIR "/tidings",
                          w->dir,
                          w->set_url,
                          NULL};
    char name[20];
    int status;

    for (unsigned i = 0; i < 10; i++) {
        snprintf(name, sizeof(name), "d%u", i);
        watched_mkdir(w, name);
    }
    command_start(&w->command, argv);
    status = command_end(&w->command);
    if (status == 77 || strstr(w->command.err_text, "unshare"))
        skip();
    assert_int_equal(status, 1);
    assert_non_null(strstr(w->command.err_text, "fs.inotify.max_user_watches"));
    assert_string_equal(w->command.out_text, "");
}

/* One watch per state; and a state belongs to one set. */
TEST(keeps_its_state_to_itself)
{
    struct watched *w = *state;
    struct command second;
    char command[1200];
    const char *argv[] = {BIN_DIR "/tidings", "watch", w->dir, NULL,
                          "--base-uri",       NULL,    NULL};

    watched_write(w, "a", "a");
    WATCHED_START_PLAINLY(w);
    fold_await(&w->fold, w->dir);
    argv[3] = w->set_url;
    argv[5] = WATCHED_BASE;
    command_start(&second, argv);
    assert_int_equal(command_end(&second), 1);
    assert_non_null(strstr(second.err_text, "another tidings watch"));
    watched_stop(w);

    argv[5] = "http://example.com/elsewhere/";
    command_start(&second, argv);
    assert_int_equal(command_end(&second), 1);
    assert_non_null(strstr(second.err_text, "choose another --state"));

    /* Without its state it would post everything again some day. */
    WATCHED_START_PLAINLY(w);
    snprintf(command, sizeof(command), "rm -r '%s/.tidings'", w->dir);
    assert_int_equal(system(command), 0);
    assert_ends(w, "was removed", 1);
}

/* A set that was made anew knows nothing of earlier posts. */
TEST(posts_everything_to_a_set_that_is_new)
{
    struct watched *w = *state;
    char command[1200];

    watched_write(w, "a", "a");
    watched_write(w, "b", "b");
    assert_int_equal(WATCHED_RUN(w, "--once"), 0);
    fold_await(&w->fold, w->dir);

    broker_stop(&w->broker);
    snprintf(command, sizeof(command), "rm -r '%s'", w->broker.data);
    assert_int_equal(system(command), 0);
    broker_restart(&w->broker);
    fold_forget(&w->fold);
    watched_write(w, "c", "c");
    WATCHED_START_PLAINLY(w);
    fold_await(&w->fold, w->dir);
    watched_stop(w);
    assert_non_null(strstr(w->command.err_text, "made anew"));
}

/* The same while it watches: the set is removed behind its back. Whatever it
 * hears of next begins the new set, which then gets all there is. */
TEST(posts_everything_to_a_set_that_was_removed)
{
    struct watched *w = *state;

    watched_write(w, "a", "a");
    watched_write(w, "b", "b");
    WATCHED_START_PLAINLY(w);
    fold_await(&w->fold, w->dir);
    for (int round = 0; round < 3; round++) {
        struct patience p = {.with = "the set to be there again"};
        char name[16];

        assert_int_equal(http_ask(&w->fold.http, "DELETE", "/sets/files", NULL),
                         204);
        fold_forget(&w->fold);
        snprintf(name, sizeof(name), "c%d", round);
        watched_write(w, name, "c");
        while (http_get(&w->fold.http, "/sets/files") == 410)
            patience_step(&p);
        fold_await(&w->fold, w->dir);
    }
    watched_stop(w);
    assert_non_null(strstr(w->command.err_text, "made anew"));
}

/* A file that no loc can name is passed over, and told; names and folders as
 * long as locs allow are posted. In a loc, "%" takes three bytes. */
TEST(passes_over_what_is_too_long_for_a_loc)
{
    struct watched *w = *state;
    size_t room = 2048 - strlen(WATCHED_BASE) - 2 * (3 * 255 + 1);
    char percents[256], path[800];

    memset(percents, '%', 255);
    percents[255] = '\0';
    snprintf(path, sizeof(path), "%s", percents);
    watched_mkdir(w, path);
    snprintf(path, sizeof(path), "%s/%s", percents, percents);
    watched_mkdir(w, path);
    snprintf(path, sizeof(path), "%s/%s/%.*s%.*s", percents, percents,
             (int)(room / 3), percents, (int)(room % 3), "aa");
    watched_write(w, path, "just fits");
    snprintf(path, sizeof(path), "%s/%s/%.*s%.*s", percents, percents,
             (int)(room / 3), percents, (int)(room % 3) + 1, "aaa");
    watched_write(w, path, "is a byte too long");
    watched_write(w, "short", "s");
    assert_int_equal(WATCHED_RUN(w, "--once"), 0);
    assert_non_null(strstr(w->command.out_text, "first=1 last=2 "));
    assert_non_null(strstr(w->command.err_text, "is not published: its URI"));
    assert_int_equal(WATCHED_RUN(w, "--once"), 0);
    assert_string_equal(w->command.out_text, "");
}

/* Each is a name that went and one that came; most are gone again before they
 * are looked at. */
TEST(keeps_up_with_many_renames)
{
    struct watched *w = *state;
    char from[20] = "f0", to[20];

    for (unsigned i = 0; i < 100; i++) {
        char name[20];

        snprintf(name, sizeof(name), "d%u", i);
        watched_write(w, name, name);
    }
    watched_write(w, from, "f");
    WATCHED_START_PLAINLY(w);
    fold_await(&w->fold, w->dir);
    for (unsigned i = 1; i <= RENAMES; i++) {
        snprintf(to, sizeof(to), "f%u", i);
        watched_move(w, from, to);
        memcpy(from, to, sizeof(from));
        if (i % 100 == 0) { /* names go round among those that stay */
            char a[20], b[20];

            snprintf(a, sizeof(a), "d%u", i / 100 % 100);
            snprintf(b, sizeof(b), "d%u", (i / 100 + 1) % 100);
            watched_move(w, a, b);
            watched_write(w, a, "new");
        }
    }
    fold_await(&w->fold, w->dir);
    assert_int_equal(fold_count(&w->fold, from), 1);
    watched_stop(w);
}
