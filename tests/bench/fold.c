/*
 * fold.c - what it costs to keep the state of a set.
 *
 *     bench_fold [RESOURCES [CHANGES [DIR]]]
 *
 * Folds the creation of RESOURCES (5,000,000), then CHANGES (1,000,000) updates
 * of resources that are chosen by chance, into a state in the directory DIR
 * (this one), all in steps as the archive thread takes them; then computes the
 * ids of all resources, and folds as many updates once more. Prints entries/s
 * and CPU of folding and committing, without the generation of the changes; the
 * longest step; the peak of memory; and the size on the disk. The state's file
 * is removed in the end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/db.h"
#include "broker/log/batch.h"
#include "broker/state/resources.h"
#include "proto/resourcesync/change.h"
#include "tests/bench/bench.h"
#include "tests/bench/usage.h"
#include "tests/support/fold_dbs.h"

#define EPOCH "0123456789abcdef"
#define DAY   INT64_C(1775067000000000)

/* Entries of about 300 bytes. */
#define BATCH_ENTRIES 500

struct bench {
    struct resources *resources;
    struct digest digest;
    uint64_t seq;
    uint64_t random;
    uint64_t step_ns; /* of the current step */
};

/* The figures of one phase. */
struct phase {
    uint64_t wall_ns, cpu_ns, longest_ns;
    uint64_t n_steps;
};

static uint64_t
clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void
check(enum status rc, const struct problem *why)
{
    if (rc)
        bench_fail("%s", why->text);
}

static void
add(struct batch *b, uint64_t number, enum change_kind kind)
{
    struct problem why = {""};
    struct change change;
    struct fragment f;
    struct buf bytes;
    char loc[100], hash[100];

    buf_init(&bytes, FRAGMENT_MAX);
    change_init(&change);
    snprintf(loc, sizeof(loc),
             "http://example.com/collection/resource-%012" PRIu64, number);
    snprintf(hash, sizeof(hash), "sha-256:%064" PRIx64, b->last);
    change.loc = slice_of(loc);
    change.kind = kind;
    change.lastmod_us = DAY;
    change.hash = slice_of(hash);
    change.length = b->last % 100000;
    change.type = SLICE("text/html");
    check(fragment_write(&bytes, &change, &f, &why), &why);
    batch_add(b, bytes.data, &f, DAY + (int64_t)b->last);
    buf_fini(&bytes);
}

static uint64_t
random_number(struct bench *b)
{
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return b->random >> 24;
}

/* Adds what was used since, and ends the step if it is to end. */
static void
fold(struct bench *b, const struct batch *batch, bool is_last, struct phase *p)
{
    struct problem why = {""};
    uint64_t wall_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

    check(fold_db_add(fold_db_of(b->resources), batch, batch->last, &why),
          &why);
    if (is_last || fold_db_is_full(fold_db_of(b->resources))) {
        check(fold_db_commit(fold_db_of(b->resources), &why), &why);
        p->n_steps++;
    }
    if (is_last)
        check(resources_keep(b->resources, &why), &why);
    wall_ns = clock_ns(CLOCK_MONOTONIC) - wall_ns;
    if (wall_ns > p->longest_ns)
        p->longest_ns = wall_ns;
    p->wall_ns += wall_ns;
    p->cpu_ns += clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
}

static void
run(struct bench *b, const char *name, uint64_t n, uint64_t n_resources)
{
    bool is_creation = n_resources == 0;
    struct phase p = {0};
    struct rusage usage;
    struct usage from, to;

    usage_take(&from, getpid());

    for (uint64_t done = 0; done < n;) {
        struct batch *batch =
            batch_new(b->seq, DAY + (int64_t)b->seq, &b->digest, NULL);

        if (!batch || batch_reserve(batch, BATCH_ENTRIES * 500, BATCH_ENTRIES))
            bench_fail("no memory");
        for (; done < n && batch->n_entries < BATCH_ENTRIES; done++)
            add(batch, is_creation ? done : random_number(b) % n_resources,
                is_creation ? CHANGE_CREATED : CHANGE_UPDATED);
        fold(b, batch, done == n, &p);
        b->seq = batch->last;
        b->digest = batch->digest;
        batch_unref(batch);
    }
    getrusage(RUSAGE_SELF, &usage);
    usage_take(&to, getpid());
    printf("%s entries=%" PRIu64 " entries_s=%.0f cpu_us=%.2f steps=%" PRIu64
           " step_max_ms=%.0f rss_max_kib=%ld disk_bytes=%.0f\n",
           name, n, (double)n * 1e9 / (double)p.wall_ns,
           (double)p.cpu_ns / 1e3 / (double)n, p.n_steps,
           (double)p.longest_ns / 1e6, usage.ru_maxrss,
           (double)(to.disk_bytes - from.disk_bytes) / (double)n);
    fflush(stdout);
}

/* Computes the ids of all resources, as for the first client that compares. */
static void
add_ids(struct bench *b)
{
    struct problem why = {""};
    uint64_t began_ns = clock_ns(CLOCK_MONOTONIC), longest_ns = 0, n = 0;

    for (; !resources_at(b->resources)->has_ids; n++) {
        uint64_t step_ns = clock_ns(CLOCK_MONOTONIC);

        check(resources_add_ids(b->resources, &why), &why);
        step_ns = clock_ns(CLOCK_MONOTONIC) - step_ns;
        if (step_ns > longest_ns)
            longest_ns = step_ns;
    }
    printf("ids entries=%" PRIu64 " entries_s=%.0f steps=%" PRIu64
           " step_max_ms=%.0f\n",
           resources_at(b->resources)->n,
           (double)resources_at(b->resources)->n * 1e9 /
               (double)(clock_ns(CLOCK_MONOTONIC) - began_ns),
           n, (double)longest_ns / 1e6);
}

int
main(int argc, char **argv)
{
    uint64_t n_resources = argc > 1 ? strtoull(argv[1], NULL, 10) : 5000000;
    uint64_t n_changes = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    const char *dir = argc > 3 ? argv[3] : ".";
    struct problem why = {""};
    struct bench b = {.random = 1};
    struct stat st;
    char path[4096];

    snprintf(path, sizeof(path), "%s/" RESOURCES_FILE, dir);
    if (n_resources == 0 || !access(path, F_OK))
        bench_fail("bench_fold [RESOURCES [CHANGES [DIR]]], and no %s", path);
    digest_sha256(&b.digest, SLICE(EPOCH));
    check(resources_open(&b.resources, dir, EPOCH, &why), &why);
    run(&b, "create", n_resources, 0);
    if (n_changes > 0)
        run(&b, "update", n_changes, n_resources);
    if (!stat(path, &st))
        printf("disk file_mib=%.0f entry_bytes=%.0f\n",
               (double)st.st_size / (1 << 20),
               (double)resources_at(b.resources)->bytes / (double)n_resources);
    add_ids(&b);
    if (n_changes > 0)
        run(&b, "update_with_ids", n_changes, n_resources);
    fold_db_close(fold_db_of(b.resources));
    check(db_unlink(path, &why), &why);
    return 0;
}
