#include "tests/support/relays.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/test.h"

#define TIDINGS BIN_DIR "/tidings"

void
relays_kill(struct relay *r)
{
    if (!r->pid)
        return;
    kill(r->pid, SIGKILL);
    process_status(r->pid);
    close(r->out);
    r->pid = 0;
}

int
relays_setup(void **state)
{
    struct relays *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    for (size_t i = 0; i < N_RELAYS; i++)
        LISTS_OPEN(&s->brokers[i], "--rotate-entries", "10000");
    for (size_t i = 0; i < N_RELAYS; i++) {
        struct relay *r = &s->relays[i];
        const struct broker *to = &s->brokers[(i + 1) % N_RELAYS].broker;

        process_log(r->log, sizeof(r->log));
        snprintf(r->from, sizeof(r->from), "%s/sets/%s",
                 s->brokers[i].broker.url, LISTS_SET);
        snprintf(r->to, sizeof(r->to), "%s/sets/%s", to->url, LISTS_SET);
        snprintf(r->state, sizeof(r->state), "%s/relay",
                 s->brokers[i].broker.dir.path);
    }
    return 0;
}

int
relays_teardown(void **state)
{
    struct relays *s = *state;

    for (size_t i = 0; i < N_RELAYS; i++)
        relays_kill(&s->relays[i]);
    for (size_t i = 0; i < N_RELAYS; i++)
        lists_close(&s->brokers[i]);
    free(s);
    return 0;
}

void
relays_start(struct relay *r)
{
    const char *const argv[] = {TIDINGS,   "relay",  r->from, r->to,
                                "--state", r->state, NULL};

    r->pid = process_start(argv, r->log, &r->out);
}

int
relays_run(struct relay *r, struct command *c)
{
    const char *const argv[] = {TIDINGS,
                                "relay",
                                r->from,
                                r->to,
                                "--state",
                                r->state,
                                "--until-caught-up",
                                NULL};

    command_start(c, argv);
    command_give(c, "");
    return command_end(c);
}

uint64_t
relays_last(struct lists *l)
{
    char *at;

    if (http_get(&l->http, "/sets/" LISTS_SET) != 200)
        return 0;
    BUF_ADD(&l->http.body, "\0");
    at = strstr(l->http.body.data, "\"last\":");
    return at ? strtoull(at + 7, NULL, 10) : 0;
}

void
relays_await(struct lists *l, uint64_t last)
{
    struct patience p = {.with = "all entries in the target"};

    while (relays_last(l) < last)
        patience_step(&p);
    assert_int_equal(relays_last(l), last);
}

void
relays_assert_all(struct lists *l, uint64_t n)
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

struct slice
relays_changes(struct lists *l, const char *query)
{
    char path[100];

    snprintf(path, sizeof(path), "/sets/%s/changes?%s", LISTS_SET, query);
    assert_int_equal(http_get(&l->http, path), 200);
    BUF_ADD(&l->http.body, "\0");
    return buf_slice(&l->http.body);
}
