/*
 * publisher_test.c - a publisher with a spool against the real broker, either
 * of which is killed again and again, and on a disk that is full.
 *
 * The publisher's process is this program with arguments, so that it can
 * preload a library (tests/support/faults.h).
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
#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/faults.h"
#include "tests/support/http.h"
#include "tests/support/process.h"
#include "tests/test.h"

#define SET "/sets/news"

/* The name of publish_on_a_full_disk as a program. */
#define PUBLISHER "--publisher"

/* Kills come with posts: so many posts, and more changes than these have. */
#define POSTS   test_size(24, 120)
#define CHANGES (2 * POSTS * BATCH)
#define BATCH   30

/* Less than all changes: it is full now and then. */
#define SPOOL_BYTES 20000

#define FULL_CHANGES 50

/* The publisher's process */

struct source {
    const char *url;
    const char *spool;
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

/* Adds the missing changes, and ends when all are durable. */
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

struct stage {
    struct faults faults;
    struct broker broker;
    char url[200]; /* of the set */
    char spool[400];
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    faults_open(&s->faults);
    broker_open(&s->broker, "--rotate-entries", "200", NULL);
    snprintf(s->url, sizeof(s->url), "%s" SET, s->broker.url);
    snprintf(s->spool, sizeof(s->spool), "%s/spool", s->broker.dir.path);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    if (s->broker.pid)
        broker_stop(&s->broker);
    broker_close(&s->broker);
    faults_close(&s->faults);
    free(s);
    return 0;
}

/* A fault kills the broker in place of its next answer: the broker has kept the
 * post, and the publisher does not know. */
static void
kill_before_answer(struct stage *s)
{
    faults_arm_once(&s->faults, PLAN_SYNC, "tidings.db-wal", 0, PLAN_KILL);
    assert_int_equal(broker_wait(&s->broker), 128 + SIGKILL);
    faults_disarm(&s->faults);
}

static void
kill_source(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(process_status(pid), 128 + SIGKILL);
}

static int
count_changes(const struct td_message *message, void *user)
{
    uint64_t *n = user;

    for (size_t i = 0; i < message->n_changes; i++) {
        char loc[60];

        snprintf(loc, sizeof(loc), "http://example.com/r/%llu",
                 (unsigned long long)++*n);
        assert_int_equal(message->changes[i].seq, *n);
        assert_string_equal(message->changes[i].loc, loc);
    }
    return 0;
}

/* All of `n` changes, in order, once; the library checks their digests. */
static void
assert_all(struct stage *s, uint64_t n)
{
    const struct td_follow_options options = {
        .after = "0", .form = TD_XML, .until_caught_up = 1};
    struct td_client *client = td_open();
    uint64_t n_followed = 0;

    assert_non_null(client);
    assert_int_equal(
        td_follow(client, s->url, &options, count_changes, &n_followed), TD_OK);
    assert_int_equal(n_followed, n);
    td_close(client);
}

FIXTURE(set_stage, clear_stage);

/* each change once and in order, though broker and publisher are
 * killed, alone and together, after every few posts. */
TEST(keeps_every_change_once_through_crashes_of_both)
{
    struct stage *s = *state;
    struct source source;
    int pipes[2];
    pid_t pid;
    unsigned n_posts = 0;
    char byte;

    source.url = s->url;
    source.spool = s->spool;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    source.out = pipes[1];
    pid = start(&source);

    /* Long before the source has published everything: it does not wait for
     * us. */
    while (n_posts < POSTS && read(pipes[0], &byte, 1) == 1) {
        switch (n_posts++ % 12) {
        case 2:
            kill_before_answer(s);
            broker_restart(&s->broker);
            break;
        case 5:
            kill_source(pid);
            pid = start(&source);
            break;
        case 8:
            kill_before_answer(s);
            kill_source(pid);
            broker_restart(&s->broker);
            pid = start(&source);
            break;
        case 11:
            broker_kill9(&s->broker);
            broker_restart(&s->broker);
            break;
        default:
            break;
        }
    }
    assert_int_equal(process_status(pid), 0);
    close(pipes[0]);
    close(pipes[1]);

    assert_all(s, CHANGES);
}

/* A disk that is full */

/* Prints the failure, and goes on when the test writes to its input. */
static void
wait_for_space(struct td_client *client, const char *what, enum td_status rc)
{
    char line[10];

    printf("%s %s %s\n", what, rc == TD_IO ? "TD_IO" : "?", td_problem(client));
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        _exit(7);
}

/* Adds changes one by one, and makes each durable; each failed call names the
 * full disk. */
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

/* if the spool has no room, the call fails with the spool's name.
 * Acknowledged changes are posted, once, when there is room again. */
TEST(a_full_disk_is_told_by_name_and_loses_nothing)
{
    static struct command c;
    struct stage *s = *state;
    const char *argv[] = {"/proc/self/exe", PUBLISHER, s->url, s->spool, NULL};
    struct http http;

    http_open(&http, s->broker.url);
    command_start(&c, argv);
    assert_string_equal(command_line(&c), "open");

    /* The first change and the last do not find room at once. */
    for (int i = 0; i < 2; i++) {
        assert_string_equal(command_line(&c), "next ? ");
        faults_arm(&s->faults, PLAN_WRITE, "/spool", 0, ENOSPC);
        answer(&c);
        assert_told(&c, "add", s->spool, "database or disk is full");
        answer(&c);
        assert_told(&c, "add", s->spool, "database or disk is full");
        assert_true(faults_disarm(&s->faults) > 0);
        answer(&c);
    }

    /* Nor does the note of which changes are the next post. */
    assert_string_equal(command_line(&c), "added ? ");
    faults_arm(&s->faults, PLAN_WRITE, "/spool", 0, ENOSPC);
    answer(&c);
    assert_told(&c, "flush", s->spool, "database or disk is full");
    assert_true(faults_disarm(&s->faults) > 0);
    assert_int_equal(http_get(&http, SET), 404);

    /* The spool cannot store either that the post was answered, as a disk may
     * report at the end. */
    faults_arm(&s->faults, PLAN_SYNC, "/spool", 1, ENOSPC);
    answer(&c);
    assert_told(&c, "flush", s->spool, "disk I/O error");
    assert_true(faults_disarm(&s->faults) > 0);
    assert_int_equal(http_get(&http, SET), 200);

    answer(&c);
    assert_int_equal(command_end(&c), 0);
    http_close(&http);
    assert_all(s, FULL_CHANGES);
}

TEST_PROGRAM(PUBLISHER, publish_on_a_full_disk);
