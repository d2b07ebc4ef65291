/*
 * publisher_test.c - a publisher with a spool against the real broker, either
 * of which is killed again and again, and on a disk that is full.
 *
 * The publisher's process is this program with arguments, so that it can have a
 * library before it (tests/support/faults.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/tidings.h"
#include "tests/support/command.h"
#include "tests/support/faults.h"
#include "tests/support/lists.h"
#include "tests/support/process.h"
#include "tests/test.h"

/* The name of publish_on_a_full_disk as a program. */
#define PUBLISHER "--publisher"

/* Each change is an fsync of the spool; kills come with posts, and so many
 * posts these are. */
#define CHANGES 10000
#define BATCH   70

/* Less than all changes: it is full now and then. */
#define SPOOL_BYTES 100000

#define FULL_CHANGES 50

/* The publisher's process */

struct source {
    char url[200];
    char spool[400];
    int out; /* a byte for every post that is durable */
};

static void
on_durable(uint64_t number, const struct td_receipt *receipt, void *user)
{
    const struct source *source = user;
    ssize_t n = write(source->out, ".", 1);

    (void)number;
    (void)receipt;
    (void)n;
}

static void
add(struct td_client *client, struct td_publisher *publisher, uint64_t n)
{
    char change[100];
    enum td_status rc = TD_UNREACHABLE;

    snprintf(change, sizeof(change),
             "{\"loc\":\"http://example.com/r/%llu\",\"change\":\"created\"}",
             (unsigned long long)n);
    while (rc == TD_UNREACHABLE) { /* it is full */
        rc = td_publisher_add(publisher, change, strlen(change), NULL);
        if (rc == TD_UNREACHABLE && td_publisher_flush(publisher))
            _exit(4);
    }
    if (rc)
        _exit(3);
    if (n % 50 == 0 && td_service(client))
        _exit(5);
}

/* Adds what is not added yet, and ends when all is durable. */
static void
publish(struct source *source)
{
    struct td_publisher_options how = {
        .batch_changes = BATCH,
        .spool = source->spool,
        .spool_bytes = SPOOL_BYTES,
        .on_durable = on_durable,
        .user = source,
    };
    struct td_client *client = td_open();
    struct td_publisher *publisher;

    if (!client || td_publisher_open(client, source->url, &how, &publisher))
        _exit(2);
    for (uint64_t n = td_publisher_added(publisher) + 1; n <= CHANGES; n++)
        add(client, publisher, n);
    if (td_publisher_flush(publisher))
        _exit(6);
    td_publisher_close(publisher);
    td_close(client);
    _exit(0);
}

static pid_t
start(struct source *source)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    publish(source);
    return 0;
}

/* The broker is killed in place of its next answer: what was posted is kept,
 * and the publisher does not know. */
static void
kill_before_answer(struct lists *l, struct faults *faults)
{
    faults_arm_once(faults, PLAN_SYNC, "tidings.db-wal", 0, PLAN_KILL);
    assert_int_equal(broker_wait(&l->broker), 128 + SIGKILL);
    faults_disarm(faults);
}

static void
kill_source(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(process_status(pid), 128 + SIGKILL);
}

/* All of `n` changes, in order, once. */
static void
assert_all(struct lists *l, uint64_t n)
{
    walk_all(&l->walk);
    assert_int_equal(l->walk.trace.last, n);
    for (uint64_t i = 1; i <= n; i++) {
        char loc[60];

        snprintf(loc, sizeof(loc), "http://example.com/r/%llu",
                 (unsigned long long)i);
        assert_string_equal(trace_at(&l->walk.trace, i)->loc, loc);
    }
}

FIXTURE(lists_setup, lists_teardown);

/* each change once and in order, though broker and publisher are
 * killed, alone and together, after every few posts. */
TEST(keeps_every_change_once_through_crashes_of_both)
{
    struct lists *l = *state;
    struct source source;
    struct faults faults;
    int pipes[2];
    pid_t pid;
    unsigned n_posts = 0;
    char byte;

    faults_open(&faults);
    LISTS_OPEN(l, "--rotate-entries", "2000");
    snprintf(source.url, sizeof(source.url), "%s/sets/%s", l->broker.url,
             LISTS_SET);
    snprintf(source.spool, sizeof(source.spool), "%s/spool",
             l->broker.dir.path);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    source.out = pipes[1];
    pid = start(&source);

    /* Long before the source has told all: it does not wait for us. */
    while (n_posts < 60 && read(pipes[0], &byte, 1) == 1) {
        switch (n_posts++ % 12) {
        case 2:
            kill_before_answer(l, &faults);
            broker_restart(&l->broker);
            break;
        case 5:
            kill_source(pid);
            pid = start(&source);
            break;
        case 8:
            kill_before_answer(l, &faults);
            kill_source(pid);
            broker_restart(&l->broker);
            pid = start(&source);
            break;
        case 11:
            broker_kill9(&l->broker);
            broker_restart(&l->broker);
            break;
        default:
            break;
        }
    }
    assert_int_equal(process_status(pid), 0);
    close(pipes[0]);
    close(pipes[1]);
    faults_close(&faults);

    assert_all(l, CHANGES);
}

/* A disk that is full */

/* Says what failed, and goes on when it is told to. */
static void
wait_for_space(struct td_client *client, const char *what, enum td_status rc)
{
    char line[10];

    printf("%s %s %s\n", what, rc == TD_IO ? "TD_IO" : "?", td_problem(client));
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        _exit(7);
}

/* Adds one by one, and has it durable; the caller of each call is told where
 * the disk is full. */
static int
publish_on_a_full_disk(char **argv)
{
    const char *url = argv[2], *spool = argv[3];
    const struct td_publisher_options how = {.spool = spool};
    struct td_client *client = td_open();
    struct td_publisher *publisher;
    enum td_status rc;

    if (!client || td_publisher_open(client, url, &how, &publisher))
        return 2;
    printf("open\n");
    fflush(stdout);
    for (unsigned n = 1; n <= FULL_CHANGES; n++) {
        char change[100];

        snprintf(change, sizeof(change),
                 "{\"loc\":\"http://example.com/r/%u\",\"change\":"
                 "\"created\"}",
                 n);
        if (n == 1 || n == FULL_CHANGES)
            wait_for_space(client, "next", TD_OK);
        while ((rc = td_publisher_add(publisher, change, strlen(change), NULL)))
            wait_for_space(client, "add", rc);
    }
    wait_for_space(client, "added", TD_OK);
    while ((rc = td_publisher_flush(publisher)))
        wait_for_space(client, "flush", rc);
    if (td_publisher_durable(publisher) != FULL_CHANGES)
        return 3;
    td_publisher_close(publisher);
    td_close(client);
    return 0;
}

static void
answer(const struct command *c)
{
    assert_int_equal(write(c->in, "\n", 1), 1);
}

static void
assert_told(struct command *c, const char *call, const char *spool,
            const char *why)
{
    char told[600];

    snprintf(told, sizeof(told), "%s TD_IO the spool %s: %s", call, spool, why);
    assert_string_equal(command_line(c), told);
}

/* what the spool cannot keep is told by name and not acknowledged; what
 * was acknowledged is posted, once, when there is room again. */
TEST(a_full_disk_is_told_by_name_and_loses_nothing)
{
    static struct command c;
    struct lists *l = *state;
    char url[200], spool[400];
    const char *argv[] = {"/proc/self/exe", PUBLISHER, url, spool, NULL};
    struct faults faults;

    LISTS_OPEN(l, "--rotate-entries", "20000");
    snprintf(url, sizeof(url), "%s/sets/%s", l->broker.url, LISTS_SET);
    snprintf(spool, sizeof(spool), "%s/spool", l->broker.dir.path);
    faults_open(&faults);
    command_start(&c, argv);
    assert_string_equal(command_line(&c), "open");

    /* The first change and the last do not find room at once. */
    for (int i = 0; i < 2; i++) {
        assert_string_equal(command_line(&c), "next ? ");
        faults_arm(&faults, PLAN_WRITE, "/spool", 0, ENOSPC);
        answer(&c);
        assert_told(&c, "add", spool, "database or disk is full");
        answer(&c);
        assert_told(&c, "add", spool, "database or disk is full");
        assert_true(faults_disarm(&faults) > 0);
        answer(&c);
    }

    /* Nor does the note of which changes are the next post. */
    assert_string_equal(command_line(&c), "added ? ");
    faults_arm(&faults, PLAN_WRITE, "/spool", 0, ENOSPC);
    answer(&c);
    assert_told(&c, "flush", spool, "database or disk is full");
    assert_true(faults_disarm(&faults) > 0);
    assert_int_equal(http_get(&l->http, "/sets/" LISTS_SET), 404);

    /* Nor, as a disk may say at the end, that it was answered. */
    faults_arm(&faults, PLAN_SYNC, "/spool", 1, ENOSPC);
    answer(&c);
    assert_told(&c, "flush", spool, "disk I/O error");
    assert_true(faults_disarm(&faults) > 0);
    assert_int_equal(http_get(&l->http, "/sets/" LISTS_SET), 200);

    answer(&c);
    assert_int_equal(command_end(&c), 0);
    faults_close(&faults);
    assert_all(l, FULL_CHANGES);
}

TEST_PROGRAM(PUBLISHER, publish_on_a_full_disk);
