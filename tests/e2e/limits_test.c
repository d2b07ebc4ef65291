/*
 * limits_test.c - very many connections, and more than there are descriptors.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/broker.h"
#include "tests/support/faults.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/patience.h"
#include "tests/support/sanitized.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define IDLE_MAX 10000

/* Of a connection that is kept and asks for nothing. */
#define IDLE_KIB 4

/* What a broker may have open here, and how many then come. */
#define FILES   120
#define CLIENTS 200

/* Heartbeats during which the broker is looked at. */
#define BEATS 10

/* Idle connections */

static int
connect_to(unsigned port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Asks, and reads the answer: from then on the connection is idle. */
static void
ask(int fd, unsigned port)
{
    static const char ok[] = "HTTP/1.1 200 ";
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char text[1024];
    int n =
        snprintf(text, sizeof(text),
                 "HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", port);
    ssize_t size = 0;

    assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
    do {
        ssize_t more;

        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        more = recv(fd, text + size, sizeof(text) - (size_t)size, 0);
        assert_true(more > 0);
        size += more;
    } while (!memmem(text, (size_t)size, "\r\n\r\n", 4));
    assert_memory_equal(text, ok, sizeof(ok) - 1);
}

/* Memory for each is bounded, others are served, and each is
 * still there when it asks again. */
TEST(ten_thousand_idle_connections_cost_little)
{
    size_t n = IS_SANITIZED ? IDLE_MAX / 10 : IDLE_MAX, before_kib, after_kib;
    int *fds = calloc(n, sizeof(*fds));
    struct rlimit files;
    struct follower f;
    struct broker b;
    struct http h;

    assert_non_null(fds);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < n + 100) {
        print_message("%zu open files are needed, and there may be %zu\n",
                      n + 100, (size_t)files.rlim_max);
        free(fds);
        skip();
    }
    broker_open(&b, "--threads", "2", NULL);
    http_open(&h, b.url);
    source_post(&h, "news", 1, 1, 0);
    follower_open(&f, b.port, "/sets/news/stream?after=0", NULL);
    follower_until(&f, 1);
    before_kib = broker_rss_kib(&b);
    for (size_t i = 0; i < n; i++) {
        fds[i] = connect_to(b.port);
        ask(fds[i], b.port);
    }
    after_kib = broker_rss_kib(&b);
    print_message("%zu idle connections: from %zu KiB to %zu KiB\n", n,
                  before_kib, after_kib);
    if (!IS_SANITIZED)
        assert_in_range(after_kib, 0, before_kib + n * IDLE_KIB);

    source_post(&h, "news", 2, 1, 0);
    follower_until(&f, 2);
    for (size_t i = 0; i < n; i += 100)
        ask(fds[i], b.port);
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
    source_post(&h, "news", 3, 1, 0);
    follower_until(&f, 3);
    follower_close(&f);
    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
    free(fds);
}

/* Descriptors */

static double
seconds_of(clockid_t clock)
{
    struct timespec t;

    assert_int_equal(clock_gettime(clock, &t), 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The processor time that the broker has had. */
static double
busy_seconds(const struct broker *b)
{
    clockid_t clock;

    assert_int_equal(clock_getcpuclockid(b->pid, &clock), 0);
    return seconds_of(clock);
}

/* io.md, trap 3: at the limit of descriptors nothing spins, those who are there
 * are served, and those who wait are when there is room again. */
TEST(the_limit_of_descriptors_stops_nobody_who_is_in)
{
    struct faults faults;
    struct wire *w[CLIENTS];
    struct wire_answer a;
    struct follower f;
    struct broker b;
    struct http h;
    double start, busy;
    size_t n_served = 0;

    faults_open(&faults);
    faults_limit_files(&faults, FILES);
    broker_open(&b, "--threads", "2", "--heartbeat", "0.2", "--rotate-entries",
                "10", NULL);
    http_open(&h, b.url);
    source_post(&h, "news", 1, 1, 0);
    follower_open(&f, b.port, "/sets/news/stream?after=0", NULL);
    follower_until(&f, 1);

    for (size_t i = 0; i < CLIENTS; i++) {
        w[i] = wire_connect("127.0.0.1", b.port);
        assert_non_null(w[i]);
    }
    start = seconds_of(CLOCK_MONOTONIC);
    busy = busy_seconds(&b);
    for (unsigned i = 0; i < BEATS; i++) {
        source_post(&h, "news", i + 2, 3, 0);
        follower_news(&f);
        while (follower_next(&f)->n > 0)
            ;
    }
    start = seconds_of(CLOCK_MONOTONIC) - start;
    busy = busy_seconds(&b) - busy;
    print_message("of %.2f seconds, busy for %.2f\n", start, busy);
    assert_true(broker_said(&b, "descriptors"));
    if (!IS_SANITIZED)
        assert_true(busy < start / 2); /* a loop that spins has all of it */
    assert_int_equal(f.notice.last, 1 + 3 * BEATS);

    /* The first half goes: the others get their turn, or were hung up on. */
    for (size_t i = 0; i < CLIENTS / 2; i++)
        wire_close(w[i]);
    for (size_t i = CLIENTS / 2; i < CLIENTS; i++) {
        if (wire_request(w[i], "GET", "/healthz", NULL, NULL, &a)) {
            assert_int_equal(a.status, 200);
            n_served++;
        } else {
            char byte;

            assert_int_equal(wire_read_some(w[i], &byte, 1), 0);
        }
        wire_close(w[i]);
    }
    assert_true(n_served > CLIENTS / 4);

    /* And what needs descriptors itself is made up for: files, and reads. */
    source_post(&h, "news", 100, 20, 0);
    follower_until(&f, 1 + 3 * BEATS + 20);
    assert_int_equal(http_get(&h, "/sets/news/changes/000000000001.xml"), 200);
    assert_int_equal(http_get(&h, "/sets/news/changes/000000000003.xml"), 200);
    follower_close(&f);
    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
    faults_close(&faults);
}

/* Too few for a start: said so at once, whatever would have run out first. */
TEST(a_start_with_too_few_descriptors_says_so)
{
    struct faults faults;
    struct tempdir dir;
    char said[2000], data[300];

    tempdir_open(&dir);
    snprintf(data, sizeof(data), "%s/data", dir.path);
    faults_open(&faults);
    for (int n = 10; n <= 70; n += 6) {
        faults_limit_files(&faults, n);
        assert_int_equal(broker_run(said, sizeof(said), "--listen",
                                    "127.0.0.1:0", "--data", data, "--threads",
                                    "2", NULL),
                         1);
        assert_non_null(strstr(said, "files may be open"));
    }
    assert_int_not_equal(access(data, F_OK), 0);
    faults_close(&faults);
    tempdir_close(&dir);
}
