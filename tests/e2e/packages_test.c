/*
 * packages_test.c - Debian's package index through the broker: four publishers
 * at once, every kind of receiver, one sequence in the end.
 */
#include "tests/support/packages.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/tidings.h"
#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/patience.h"
#include "tests/support/publishers.h"
#include "tests/support/stream.h"
#include "tests/support/walk.h"
#include "tests/test.h"

#define SET "debian"

/* Where a list ends if nothing is set. */
#define LIST_ENTRIES 50000

/* Publishers */

struct stock {
    struct packages packages;
    pthread_mutex_t lock;
    size_t next;     /* the first package that nobody has posted */
    uint32_t random; /* for the sizes of posts; the same in every run */
};

/* The next packages, as many as it happens: 1 to 2,000. */
static size_t
next_packages(unsigned who, struct posted *entries, void *user)
{
    struct stock *s = user;
    size_t n;

    (void)who;
    pthread_mutex_lock(&s->lock);
    s->random = s->random * 1664525 + 1013904223;
    n = 1 + (s->random >> 8) % PUBLISHERS_POST_MAX;
    if (s->random >> 29 == 0)
        n = 1;
    if (n > s->packages.n - s->next)
        n = s->packages.n - s->next;
    memcpy(entries, s->packages.all + s->next, n * sizeof(*entries));
    s->next += n;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* One package, so that there is a set to follow. */
static void
post_first(struct stock *s, const struct broker *b, struct journal *journal)
{
    struct problem why = {""};
    struct buf body;
    struct http h;

    http_open(&h, b->url);
    buf_init(&body, 4096);
    publishers_write(&body, true, s->packages.all, 1);
    assert_int_equal(http_post(&h, "/sets/" SET "/changes", "application/xml",
                               buf_slice(&body)),
                     200);
    assert_true(journal_note(journal, 1, 1, s->packages.all, 1, &why));
    s->next = 1;
    buf_fini(&body);
    http_close(&h);
}

/* A follower by libtidings, in JSON, from the start */

struct by_library {
    pthread_t thread;
    bool is_started;
    struct td_client *client;
    char set_url[128];
    uint64_t n; /* ends after this entry */
    enum td_status status;
    struct trace trace;
    char digest[DIGEST_TEXT_SIZE + 1]; /* of the last message */
    struct problem why;
};

static int
on_message(const struct td_message *message, void *user)
{
    struct by_library *f = user;

    for (size_t i = 0; i < message->n_changes; i++) {
        const struct td_change *c = &message->changes[i];

        if (!trace_add(&f->trace, c->seq, c->datetime, c->change, c->loc,
                       &f->why))
            return 1;
    }
    if (message->digest)
        snprintf(f->digest, sizeof(f->digest), "%s", message->digest);
    return message->last >= f->n;
}

static void *
follow_by_library(void *user)
{
    struct by_library *f = user;
    const struct td_follow_options options = {.after = "0",
                                              .idle_ms = PATIENCE_MS};

    f->status = td_follow(f->client, f->set_url, &options, on_message, f);
    if (f->status != TD_STOPPED)
        problem_set(&f->why, "%s", td_problem(f->client));
    return NULL;
}

/* A follower of raw bytes, in XML, that joins in the middle */

struct joiner {
    pthread_t thread;
    bool is_started;
    const struct broker *broker;
    struct publishers *publishers;
    uint64_t n;
    struct trace trace;
    struct problem why; /* "": all is well */
};

static void *
join_in_the_middle(void *user)
{
    struct joiner *j = user;
    char position[64];
    struct wire *w;

    publishers_await_seq(j->publishers, j->n / 2, position);
    w = wire_connect("127.0.0.1", j->broker->port);
    if (!w || !strchr(position, '-')) {
        problem_set(&j->why, "no connection, or no answer to a post");
        wire_close(w);
        return NULL;
    }
    trace_init_after(&j->trace, strtoull(strchr(position, '-') + 1, NULL, 10));
    wire_set_wait(w, PATIENCE_MS);
    if (stream_open(w, SET, position, &j->why))
        stream_read(w, &j->trace, j->n, NULL, &j->why);
    wire_close(w);
    return NULL;
}

/* The program `tidings follow --state`, in XML, killed on its way */

struct by_program {
    struct command command;
    char set_url[128];
    char state[300];
    struct trace trace;
    uint64_t first; /* seq of the first line since it was started */
    struct buf line;
};

static void
start_program(struct by_program *f)
{
    const char *const argv[] = {BIN_DIR "/tidings", "follow",   f->set_url,
                                "--from-start",     "--format", "xml",
                                "--state",          f->state,   NULL};

    f->first = 0;
    buf_clear(&f->line);
    command_start(&f->command, argv);
}

/* Takes its whole lines, keeps the rest. */
static void
take_lines(struct by_program *f)
{
    struct problem why = {""};
    const char *at = f->line.data;
    const char *end = at + f->line.size;
    const char *newline;

    while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
        struct slice line = {at, (size_t)(newline + 1 - at)};
        const char *seq = memmem(line.data, line.size, "td:seq=\"", 8);

        assert_non_null(seq);
        if (!f->first)
            f->first = strtoull(seq + 8, NULL, 10);
        if (!trace_line(&f->trace, line, &why))
            fail_msg("tidings follow: %s", why.text);
        at = newline + 1;
    }
    f->line.size = (size_t)(end - at);
    memmove(f->line.data, at, f->line.size);
}

/* Reads what it prints until it has entry `until`, or to its end. */
static void
read_program(struct by_program *f, uint64_t until)
{
    struct pollfd fd = {.fd = f->command.out, .events = POLLIN};

    while (f->trace.last < until) {
        char *room = buf_room(&f->line, 65536);
        ssize_t n;

        assert_non_null(room);
        if (poll(&fd, 1, PATIENCE_MS) != 1)
            fail_msg("tidings follow prints nothing after entry %" PRIu64,
                     f->trace.last);
        n = read(f->command.out, room, 65536);
        assert_true(n >= 0);
        if (n == 0)
            return;
        f->line.size += (size_t)n;
        take_lines(f);
    }
}

/* SIGKILL. What it had printed by then counts, half a line does not. */
static void
kill_program(struct by_program *f)
{
    kill(f->command.pid, SIGKILL);
    read_program(f, UINT64_MAX);
    assert_int_equal(command_end(&f->command), 128 + SIGKILL);
}

/* The test */

struct stage {
    struct broker broker;
    struct stock stock;
    struct journal journal;
    struct publishers publishers;
    struct by_library by_library;
    struct joiner joiner;
    struct by_program by_program;
    struct walk walk;
    uint64_t n;
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    packages_open(&s->stock.packages);
    s->n = s->stock.packages.n;
    print_message("%" PRIu64 " packages of %s\n", s->n, s->stock.packages.from);
    s->stock.random = 20261120;
    pthread_mutex_init(&s->stock.lock, NULL);
    journal_init(&s->journal);
    broker_open(&s->broker, NULL);
    post_first(&s->stock, &s->broker, &s->journal);
    walk_open(&s->walk, &s->broker, SET);
    return 0;
}

static void
join_followers(struct stage *s)
{
    if (s->by_library.is_started)
        pthread_join(s->by_library.thread, NULL);
    if (s->joiner.is_started)
        pthread_join(s->joiner.thread, NULL);
    s->by_library.is_started = s->joiner.is_started = false;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    /* After a failure threads may still run: without broker they end. */
    if (s->by_library.is_started) {
        broker_kill9(&s->broker);
        td_stop(s->by_library.client);
    }
    join_followers(s);
    publishers_fini(&s->publishers);
    td_close(s->by_library.client);
    trace_fini(&s->by_library.trace);
    trace_fini(&s->joiner.trace);
    trace_fini(&s->by_program.trace);
    buf_fini(&s->by_program.line);
    walk_close(&s->walk);
    journal_fini(&s->journal);
    packages_close(&s->stock.packages);
    if (s->broker.pid)
        broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

static void
start_followers(struct stage *s)
{
    struct by_library *library = &s->by_library;
    struct by_program *program = &s->by_program;
    struct joiner *joiner = &s->joiner;

    library->n = joiner->n = s->n;
    snprintf(library->set_url, sizeof(library->set_url), "%s/sets/" SET,
             s->broker.url);
    trace_init(&library->trace);
    library->client = td_open();
    assert_non_null(library->client);
    assert_int_equal(
        pthread_create(&library->thread, NULL, follow_by_library, library), 0);
    library->is_started = true;

    joiner->broker = &s->broker;
    joiner->publishers = &s->publishers;
    assert_int_equal(
        pthread_create(&joiner->thread, NULL, join_in_the_middle, joiner), 0);
    joiner->is_started = true;

    snprintf(program->set_url, sizeof(program->set_url), "%s/sets/" SET,
             s->broker.url);
    snprintf(program->state, sizeof(program->state), "%s/state",
             s->broker.dir.path);
    trace_init(&program->trace);
    buf_init(&program->line, 8 << 20);
}

/* Reads a third of it, is killed, goes on where its state file says. */
static void
follow_by_program(struct stage *s, const char *epoch)
{
    struct by_program *f = &s->by_program;
    struct problem why = {""};

    assert_true(trace_epoch(&f->trace, epoch, &why));
    start_program(f);
    read_program(f, s->n / 3);
    kill_program(f);
    assert_true(f->trace.last >= s->n / 3 && f->trace.last < s->n);

    start_program(f);
    read_program(f, s->n);
    kill(f->command.pid, SIGINT);
    assert_int_equal(command_end(&f->command), 0);
    assert_string_equal(f->command.out_text, "");
    assert_true(f->first > 1); /* not from the start again */
}

/* They are the same as what is in the lists, and have their last digest. */
static void
compare(struct stage *s)
{
    const struct trace *pulled = &s->walk.trace;
    struct problem why = {""};
    char digest[DIGEST_TEXT_SIZE + 1] = "";

    digest_write(digest, trace_digest(pulled, s->n));
    assert_string_equal(s->by_library.digest, digest);
    if (!trace_check_digest(&s->joiner.trace, s->n, digest, &why) ||
        !trace_check_digest(&s->by_program.trace, s->n, digest, &why) ||
        !trace_is_same(&s->by_library.trace, pulled, &why) ||
        !trace_is_same(&s->joiner.trace, pulled, &why) ||
        !trace_is_same(&s->by_program.trace, pulled, &why))
        fail_msg("%s", why.text);
    assert_int_equal(s->by_library.trace.after, 0);
    assert_int_equal(s->by_program.trace.after, 0);
}

FIXTURE(set_stage, clear_stage);

/* the whole index, posted by four at
 * once across the end of a list, is one sequence for whoever asks. */
TEST(every_receiver_ends_with_the_sequence_that_was_acknowledged)
{
    struct stage *s = *state;
    struct problem why = {""};
    char position[64];

    publishers_start(&s->publishers, 4, &s->broker, SET, &s->journal,
                     next_packages, &s->stock);
    start_followers(s);
    publishers_await_seq(&s->publishers, 1, position);
    position[16] = '\0';
    follow_by_program(s, position);
    publishers_join(&s->publishers);
    join_followers(s);
    assert_string_equal(s->by_library.why.text, "");
    assert_int_equal(s->by_library.status, TD_STOPPED);
    assert_string_equal(s->joiner.why.text, "");

    walk_all(&s->walk);

    assert_int_equal(s->journal.n, s->n);
    assert_int_equal(s->walk.trace.last, s->n);
    if (!journal_is_in(&s->journal, &s->walk.trace, &why))
        fail_msg("%s", why.text);
    assert_int_equal(s->walk.n_lists, 2);
    assert_int_equal(s->walk.lists[0].last, LIST_ENTRIES);
    compare(s);
}
