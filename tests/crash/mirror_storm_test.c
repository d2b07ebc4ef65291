/*
 * mirror_storm_test.c - files change, come and go at a source, while the
 * network to the broker and to the files is cut, reset and stalled, and the
 * broker and the mirror are killed: in the end the mirror's files are the
 * source's.
 *
 * The seed is printed, and TIDINGS_SEED=N repeats the choices of a run (the
 * moments themselves are the machine's, too).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tidings_mirror.h"
#include "proto/buf.h"
#include "proto/hash.h"
#include "tests/support/broker.h"
#include "tests/support/cutter.h"
#include "tests/support/http.h"
#include "tests/support/process.h"
#include "tests/support/shell.h"
#include "tests/support/site.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define MIRROR "--mirror"

#define RESOURCES 500U
#define ROUNDS    test_size(40, 120)
#define POST      100U /* changes of a round */

/* In a round that ends with a kill, so many requests for files come first: it
 * is killed at work. */
#define REQUESTS 10U

#define CONTENT_MAX 40000U

/* The mirror: a process of its own, this program once more. */

static void
on_event(const struct td_sync_event *e, void *user)
{
    (void)user;
    if (e->why)
        fprintf(stderr, "mirror: %d: %s: %s\n", e->what, e->loc ? e->loc : "",
                e->why);
}

static int
mirror_main(char **argv)
{
    struct td_sync_options options = {.max_delete_percent = -1,
                                      .until_caught_up = argv[4] != NULL,
                                      .on_event = on_event};
    struct td_client *client = td_open();
    enum td_status rc = td_sync(client, argv[2], argv[3], &options);

    if (rc)
        fprintf(stderr, "mirror: ended with %d: %s\n", rc, td_problem(client));
    td_close(client);
    return (int)rc;
}

/* The stage */

struct resource {
    unsigned version; /* 0: it never was */
    bool is_there;
};

struct stage {
    struct broker broker;
    struct site *site;
    struct cutter *to_broker, *to_site;
    struct http http;
    struct tempdir dir;
    pid_t mirror; /* 0: it does not run */
    int out;
    char log[300], url[100], mirrored[300];
    uint64_t die;
    struct resource all[RESOURCES];
    char bytes[CONTENT_MAX];
};

static uint64_t
roll(struct stage *s)
{
    s->die = s->die * UINT64_C(6364136223846793005) + 1442695040888963407;
    return s->die >> 33;
}

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    s->die = test_seed();
    tempdir_open(&s->dir);
    process_log(s->log, sizeof(s->log));
    s->site = site_new();
    /* What the broker tells of itself leads through the cutter, too. */
    s->to_broker = cutter_new(0);
    broker_open(&s->broker, "--public-url", cutter_url(s->to_broker),
                "--rotate-entries", "1000", "--heartbeat", "0.5", NULL);
    cutter_point(s->to_broker, s->broker.port);
    http_open(&s->http, s->broker.url);
    s->to_site = cutter_new(site_port(s->site));
    snprintf(s->url, sizeof(s->url), "%s/sets/files", cutter_url(s->to_broker));
    snprintf(s->mirrored, sizeof(s->mirrored), "%s/mirror", s->dir.path);
    return 0;
}

static void
end_mirror(struct stage *s)
{
    kill(s->mirror, SIGKILL);
    process_status(s->mirror);
    close(s->out);
    s->mirror = 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    if (s->mirror)
        end_mirror(s);
    cutter_free(s->to_broker);
    cutter_free(s->to_site);
    site_free(s->site);
    http_close(&s->http);
    broker_close(&s->broker);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

static void
begin_mirror(struct stage *s, const char *until_caught_up)
{
    const char *const arguments[] = {"/proc/self/exe", MIRROR,          s->url,
                                     s->mirrored,      until_caught_up, NULL};

    s->mirror = process_start(arguments, s->log, &s->out);
}

/* What a version of a resource is. */
static struct slice
content(struct stage *s, unsigned i, unsigned version)
{
    uint64_t x = i * UINT64_C(1000003) + version;
    size_t size = 1 + (version * 7919 + i * 104729) % CONTENT_MAX;

    for (size_t at = 0; at < size; at++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
        s->bytes[at] = (char)(x >> 56);
    }
    return (struct slice){s->bytes, size};
}

/* The source */

/* Changes a resource, and tells it behind `to`. */
static void
change(struct stage *s, unsigned i, struct buf *to)
{
    struct resource *r = &s->all[i];
    char path[40], digest[DIGEST_TEXT_SIZE + 1] = "";
    bool was_there = r->is_there;
    struct digest sum;
    struct slice body;

    snprintf(path, sizeof(path), "/r/%u.bin", i);
    buf_add_format(to, "{\"loc\":\"%s%s\",", cutter_url(s->to_site), path);
    if (was_there && roll(s) % 5 == 0) {
        r->is_there = false;
        site_delete(s->site, path);
        BUF_ADD(to, "\"change\":\"deleted\"}");
        return;
    }
    r->is_there = true;
    body = content(s, i, ++r->version);
    site_put(s->site, path, "application/octet-stream", body);
    digest_start(&sum, body); /* SHA-256 of what it is given */
    digest_write(digest, &sum);
    buf_add_format(
        to, "\"change\":\"%s\",\"length\":%zu,\"hash\":{\"sha-256\":\"%s\"}}",
        was_there ? "updated" : "created", body.size,
        digest + strlen("sha-256:"));
}

static void
change_many(struct stage *s)
{
    struct buf to;

    buf_init(&to, 1 << 20);
    for (unsigned i = 0; i < POST; i++) {
        buf_add_text(&to, i ? "," : "[");
        change(s, (unsigned)(roll(s) % RESOURCES), &to);
    }
    BUF_ADD(&to, "]");
    assert_int_equal(source_send(&s->http, "files", "application/json",
                                 buf_slice(&to), NULL),
                     200);
    buf_fini(&to);
}

/* The end */

static void
check_files(struct stage *s)
{
    unsigned n = 0;
    char *said;

    for (unsigned i = 0; i < RESOURCES; i++) {
        struct slice body = content(s, i, s->all[i].version);
        char path[600], *bytes = malloc(CONTENT_MAX + 1);
        FILE *file;

        assert_non_null(bytes);
        snprintf(path, sizeof(path), "%s/127.0.0.1:%u/r/%u.bin", s->mirrored,
                 cutter_port(s->to_site), i);
        file = fopen(path, "re");
        if (!s->all[i].is_there && file)
            fail_msg("%s should not be there", path);
        if (s->all[i].is_there) {
            n++;
            if (!file)
                fail_msg("%s is missing", path);
            assert_int_equal(fread(bytes, 1, CONTENT_MAX + 1, file), body.size);
            assert_memory_equal(bytes, body.data, body.size);
        }
        if (file)
            fclose(file);
        free(bytes);
    }
    said =
        shell("find %s -type f -not -path '*/.tidings/*' | wc -l", s->mirrored);
    assert_int_equal(atoi(said), n);
    free(said);
}

FIXTURE(set_stage, clear_stage);

/* */
TEST(the_mirror_is_the_source_after_the_storm)
{
    struct stage *s = *state;
    struct cutter_plan plan = {.seed = roll(s),
                               .bytes_max = 1 << 20,
                               .closes = 25,
                               .resets = 25,
                               .stalls = 3,
                               .holds = 10,
                               .stall_ms = 2000};

    cutter_plan(s->to_broker, &plan);
    cutter_plan(s->to_site, &plan);
    change_many(s);
    begin_mirror(s, NULL);
    for (unsigned round = 1; round < ROUNDS; round++) {
        unsigned n_requests = site_count(s->site, NULL);

        change_many(s);
        if (round % 4 == 0)
            site_await(s->site, NULL, n_requests + REQUESTS);
        if (round % 8 == 0) {
            end_mirror(s);
            begin_mirror(s, NULL);
        } else if (round % 8 == 4) {
            broker_kill9(&s->broker);
            broker_restart(&s->broker);
        }
    }
    end_mirror(s);

    cutter_plan(s->to_broker, NULL);
    cutter_plan(s->to_site, NULL);
    begin_mirror(s, "until it has caught up");
    assert_int_equal(process_status(s->mirror), TD_OK);
    s->mirror = 0;
    close(s->out);
    check_files(s);
    print_message("%u requests for files, %u connections cut\n",
                  site_count(s->site, NULL),
                  cutter_counts(s->to_site).n_closes +
                      cutter_counts(s->to_site).n_resets +
                      cutter_counts(s->to_broker).n_closes +
                      cutter_counts(s->to_broker).n_resets);
}

TEST_PROGRAM(MIRROR, mirror_main);
