#include "broker/archive/disk_usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/clock.h"
#include "tests/support/samples.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

FIXTURE(stage_configure, stage_close);

static struct samples now;

static double
disk_bytes(const char *kind)
{
    char series[100];
    struct buf text;

    snprintf(series, sizeof(series), "tidings_disk_bytes{kind=\"%s\"}", kind);
    buf_init(&text, 1 << 20);
    metrics_write(&text);
    samples_read(&now, buf_slice(&text));
    buf_fini(&text);
    return samples_value(&now, series);
}

/* Makes a file and the folders around it; returns its bytes on the disk. */
static double
put(void **state, const char *path)
{
    char folder[200];
    struct stat st;
    int fd;

    for (const char *end = path; (end = strchr(end, '/')); end++) {
        snprintf(folder, sizeof(folder), "%.*s", (int)(end - path), path);
        mkdirat(tempdir_fd(state), folder, 0700);
    }
    fd = openat(tempdir_fd(state), path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, path, strlen(path)), strlen(path));
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(fstat(fd, &st), 0);
    close(fd);
    return (double)st.st_blocks * 512;
}

static void
walk(struct disk_usage *usage)
{
    do
        chore_look(&usage->chore);
    while (usage->depth > 0);
}

#define assert_bytes(kind, bytes) \
    assert_true(disk_bytes(kind) - (bytes) == 0) /* whole blocks */

/* A file counts for the kind of its place, and as temporary while somebody
 * writes it there. */
TEST(counts_each_file_by_its_place)
{
    struct disk_usage usage;
    struct set *set;
    double lists, other;

    sets_open(&s);
    set = sets_post(&s, "news", 1, 1);
    disk_usage_init(&usage, s.registry);
    walk(&usage);
    lists = disk_bytes("change-lists");
    other = disk_bytes("other");
    assert_true(disk_bytes("database") > 0);

    lists += put(state, "sets/news/changes/000000000001.xml.gz");
    lists += put(state, "sets/more/changes/000000000001.xml.gz");
    other += put(state, "stray");
    double builds = put(state, "sets/news/resourcelist/000000000001/1.xml.gz");
    double dumps = put(state, "sets/news/resourcedump/000000000001/1.zip") +
                   put(state, "sets/news/changedump/000000000001/1.zip");
    double temporary = put(state, "uploads/news.whole") +
                       put(state, "arriving/1") +
                       put(state, "sets/news/changes/000000000002.xml.gz.new");
    double wal = put(state, "sets/news/resources.db-wal");
    put(state, "sets/news/content/ab/abcdef"); /* the set counts it */
    assert_int_equal(symlinkat(".", tempdir_fd(state), "sets/loop"), 0);
    wal += disk_bytes("wal");
    atomic_store(&set->content_counts.bytes, 12345);

    clock_pass_us(DISK_USAGE_PAUSE_S * INT64_C(1000000));
    walk(&usage);
    registry_measure(s.registry);
    assert_bytes("change-lists", lists);
    assert_bytes("resource-lists", builds);
    assert_bytes("dumps", dumps);
    assert_bytes("temporary", temporary);
    assert_bytes("content", 12345);
    assert_bytes("wal", wal);
    assert_bytes("other", other);
}

/* A walk stops after so many names, and goes on a second later. The sums of the
 * walk before stay until it ends; then it pauses. */
TEST(looks_at_a_bounded_number_of_names_at_a_time)
{
    struct disk_usage usage;
    double bytes = 0;
    unsigned n_steps = 0;
    char path[100];

    sets_open(&s);
    disk_usage_init(&usage, s.registry);
    walk(&usage);
    assert_bytes("temporary", 0);
    for (int i = 0; i < 2 * DISK_USAGE_STEP; i++) {
        snprintf(path, sizeof(path), "uploads/%d", i);
        bytes += put(state, path);
    }
    walk(&usage);
    assert_bytes("temporary", 0); /* it pauses */

    clock_pass_us(DISK_USAGE_PAUSE_S * INT64_C(1000000));
    do {
        assert_bytes("temporary", 0);
        chore_look(&usage.chore);
        n_steps++;
    } while (usage.depth > 0);
    assert_int_equal(n_steps, 3);
    assert_bytes("temporary", bytes);
}

/* The thread may end within a walk. */
TEST(leaves_no_directory_open)
{
    struct disk_usage usage;
    struct list chores;
    char path[100];
    int before, after;

    sets_open(&s);
    for (int i = 0; i < DISK_USAGE_STEP; i++) {
        snprintf(path, sizeof(path), "uploads/%d", i);
        put(state, path);
    }
    disk_usage_init(&usage, s.registry);
    list_init(&chores);
    list_append(&chores, &usage.chore.node);
    before = dup(0);
    close(before);
    chore_look(&usage.chore);
    assert_true(usage.depth > 0);
    chores_end(&chores);
    after = dup(0);
    close(after);
    assert_int_equal(after, before);
}
