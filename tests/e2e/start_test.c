/*
 * start_test.c - starts that cannot be: where somebody else is already.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/broker.h"
#include "tests/support/build.h"
#include "tests/support/data.h"
#include "tests/support/http.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define STARTS 3

/* What the lock says: the pid of its last owner. */
static void
read_lock(const struct broker *b, char text[32])
{
    char path[400];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "%s/lock", b->data);
    file = fopen(path, "re");
    assert_non_null(file);
    n = fread(text, 1, 31, file);
    text[n] = '\0';
    fclose(file);
}

/* A directory as a crash left it, the latest posts in the WAL alone. */
static void
leave_after_crash(struct broker *b)
{
    struct http h;

    broker_open(b, NULL);
    http_open(&h, b->url);
    source_post(&h, "news", 1, 10, 0);
    broker_stop(b);
    broker_restart(b);
    source_post(&h, "news", 11, 10, 0);
    http_close(&h);
    broker_kill9(b);
}

FIXTURE(broker_setup, broker_teardown);

/* A clear error, exit status 1, nothing touched, and nothing
 * made where nothing was. */
TEST(an_address_in_use_leaves_the_directory_as_it_was)
{
    struct broker *other = broker_of(state), b;
    char said[2000], listen[64], port[16], none[400], before[32], after[32];
    struct digest sum, now;
    struct stat st;

    leave_after_crash(&b);
    sum = data_sum(b.data);
    read_lock(&b, before);
    snprintf(port, sizeof(port), "port %u", other->port);
    snprintf(listen, sizeof(listen), "127.0.0.1:%u", other->port);
    assert_int_equal(broker_run(said, sizeof(said), "--listen", listen,
                                "--data", b.data, NULL),
                     1);
    assert_non_null(strstr(said, "127.0.0.1"));
    assert_non_null(strstr(said, port));
    assert_non_null(strstr(said, "in use"));
    now = data_sum(b.data);
    assert_memory_equal(sum.bytes, now.bytes, DIGEST_SIZE);
    read_lock(&b, after);
    assert_string_equal(after, before);

    snprintf(none, sizeof(none), "%s/none", b.dir.path);
    assert_int_equal(broker_run(said, sizeof(said), "--listen", listen,
                                "--data", none, NULL),
                     1);
    assert_int_not_equal(stat(none, &st), 0);

    broker_restart(&b);
    broker_stop(&b);
    broker_close(&b);
}

/* The same; and the one that has it goes on. It is halted meanwhile, as it has
 * things of its own to write. */
TEST(a_second_broker_does_not_get_the_directory)
{
    struct broker *b = broker_of(state);
    char said[STARTS][2000], owner[64], before[32], after[32];
    int status[STARTS];
    struct digest sum, now;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "news", 1, 10, 0);
    assert_int_equal(build(&h, "/sets/news/resourcelist"), 200);
    broker_halt(b);
    sum = data_sum(b->data);
    read_lock(b, before);
    for (int i = 0; i < STARTS; i++)
        status[i] = broker_run(said[i], sizeof(said[i]), "--listen",
                               "127.0.0.1:0", "--data", b->data, NULL);
    now = data_sum(b->data);
    broker_go_on(b);

    snprintf(owner, sizeof(owner), "in use by process %d", (int)b->pid);
    for (int i = 0; i < STARTS; i++) {
        assert_int_equal(status[i], 1);
        assert_non_null(strstr(said[i], b->data));
        assert_non_null(strstr(said[i], owner));
    }
    assert_memory_equal(sum.bytes, now.bytes, DIGEST_SIZE);
    read_lock(b, after);
    assert_string_equal(after, before);
    assert_int_equal(source_post(&h, "news", 11, 1, 0).last, 11);

    broker_kill9(b); /* the lock goes with its owner, however that goes */
    broker_restart(b);
    assert_int_equal(source_post(&h, "news", 12, 1, 0).last, 12);
    http_close(&h);
}
