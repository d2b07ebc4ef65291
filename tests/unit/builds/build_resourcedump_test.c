#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/options.h"
#include "broker/builds/build.h"
#include "broker/builds/generation.h"
#include "tests/support/chores.h"
#include "tests/support/set_changes.h"
#include "tests/test.h"
#include "tests/unit/archive/stage.h"

/* The first dump. */
#define FIRST "sets/demo/resourcedump/000000000001"

#define INLINE_AT_ONCE "{\"content\":\"inline\",\"resourceDumpEvery\":0.000001}"

/* The free bytes that fstatvfs reports, also to the log thread; 0: the real
 * number. */
static _Atomic uint64_t free_bytes;

/* In the C library's place. */
int
fstatvfs(int fd, struct statvfs *disk)
{
    uint64_t told = free_bytes;
    struct statfs is;

    if (fstatfs(fd, &is))
        return -1;
    memset(disk, 0, sizeof(*disk));
    disk->f_frsize = (unsigned long)is.f_bsize;
    disk->f_bavail = told > 0 ? told / (unsigned long)is.f_bsize : is.f_bavail;
    return 0;
}

static int
set_up(void **state)
{
    if (stage_open_dumping(state))
        return -1;
    d.kind = GENERATION_RESOURCEDUMP;
    return 0;
}

FIXTURE(set_up, stage_end_dumping);

/* Orders a dump, which must be built. */
static void
build(void)
{
    const struct build_order *order =
        dumping_order(&d, GENERATION_RESOURCEDUMP);

    if (order->status)
        fail_msg("%s", order->why.text);
}

static struct generation
list_current(void)
{
    return sets_head(&d.sets, "demo")
        .generations[GENERATION_RESOURCELIST]
        .current;
}

/* Works until a dump is being built. */
static void
begin(void)
{
    while (!d.schedule.build || d.schedule.kind != GENERATION_RESOURCEDUMP) {
        dumping_look(&d);
        dumping_round(&d);
    }
}

/* Orders the first dump, which must be refused; no file of it exists. */
static const struct build_order *
order_refused(void **state, enum status status)
{
    const struct build_order *order =
        dumping_order(&d, GENERATION_RESOURCEDUMP);

    assert_int_equal(order->status, status);
    assert_int_equal(dumping_current(&d).number, 0);
    assert_no_file(tempdir_fd(state), FIRST);
    return order;
}

/* `n` resources from number `from` on, a few bytes each. */
static void
post(unsigned from, unsigned n)
{
    for (unsigned i = from; i < from + n; i++) {
        char text[40];

        snprintf(text, sizeof(text), "%u, %u\n", i, i * i);
        dumping_post(&d, i, "updated", text);
    }
}

/* Where the content `text` of the set is. */
static void
path_of(const char *text, char path[200])
{
    char hex[DIGEST_TEXT_SIZE + 1] = "";
    struct digest digest;

    digest_sha256(&digest, slice_of(text));
    digest_write(hex, &digest);
    snprintf(path, 200, "sets/demo/content/%.2s/%s",
             hex + sizeof("sha-256:") - 1, hex + sizeof("sha-256:") - 1);
}

/*
 * also a deleted resource, an updated one,
 * and two of the same bytes. */
TEST(has_each_resource_with_its_bytes)
{
    struct unzipped u;

    dumping_post(&d, 1, "created", "one");
    dumping_post(&d, 2, "created", "two");
    dumping_post(&d, 3, "created", "two");
    dumping_post(&d, 4, "created", "");
    dumping_post(&d, 2, "deleted", NULL);
    dumping_post(&d, 1, "updated", "one, again");
    build();
    assert_int_equal(dumping_current(&d).n, 3);
    assert_int_equal(dumping_current(&d).parts, 1);
    assert_int_equal(dumping_current(&d).seq, 6);
    dumping_check_resources(&d, 1);
    dumping_unzip(&d, 1, 1, &u);
    assert_int_equal(u.n, 4);
    assert_true(slice_is(
        unzipped_find(&u, "/resources/000000000001.txt")->bytes, "one, again"));
    assert_true(slice_is(
        unzipped_find(&u, "/resources/000000000002.txt")->bytes, "two"));
    assert_true(
        slice_is(unzipped_find(&u, "/resources/000000000003.txt")->bytes, ""));
    unzipped_close(&u);
}

/* each resource is in one of them. */
TEST(is_cut_into_packages_of_a_size)
{
    uint64_t parts;

    d.sets.config.package_bytes = 20000;
    post(1, 100);
    build();
    parts = dumping_current(&d).parts;
    assert_in_range(parts, 3, 20);
    dumping_check_resources(&d, 1);
    for (uint64_t part = 1; part <= parts; part++) {
        char path[120];
        struct stat st;

        snprintf(path, sizeof(path),
                 "sets/demo/resourcedump/000000000001/%012llu.zip",
                 (unsigned long long)part);
        assert_int_equal(fstatat(tempdir_fd(state), path, &st, 0), 0);
        assert_in_range(st.st_size, 1, 20000);
    }
}

/* A resource that is larger than a package may be has one of its own. */
TEST(what_is_too_large_has_a_package_of_its_own)
{
    static char large[60000];
    struct unzipped u;

    d.sets.config.package_bytes = 20000;
    memset(large, 'x', sizeof(large) - 1);
    dumping_post(&d, 1, "created", "before");
    dumping_post(&d, 2, "created", large);
    dumping_post(&d, 3, "created", "behind");
    build();
    assert_int_equal(dumping_current(&d).parts, 3);
    dumping_check_resources(&d, 1);
    dumping_unzip(&d, 1, 2, &u);
    assert_int_equal(u.n, 2);
    unzipped_close(&u);
}

/* A set that has lost all resources has a dump without packages. */
TEST(an_empty_set_has_an_empty_dump)
{
    dumping_post(&d, 1, "created", "one");
    dumping_post(&d, 1, "deleted", NULL);
    build();
    assert_int_equal(dumping_current(&d).number, 1);
    assert_int_equal(dumping_current(&d).parts, 0);
    dumping_check_resources(&d, 1);
}

/* the next dump has the changes that arrive between two steps. */
TEST(is_of_one_state_whatever_is_posted)
{
    d.sets.config.package_bytes = 5000;
    d.sets.config.resource_dump_every_us = 1;
    set_changes_put(&d.sets, "demo", INLINE_AT_ONCE);
    post(1, 60);
    for (unsigned i = 0; dumping_current(&d).number == 0; i++) {
        dumping_look(&d);
        dumping_round(&d);
        if (d.schedule.build)
            dumping_post(&d, i % 80 + 1, i % 3 ? "updated" : "deleted",
                         i % 3 ? "another" : NULL);
    }
    assert_int_equal(dumping_current(&d).seq, 60);
    assert_int_equal(list_current().seq, 60);
    dumping_check_resources(&d, 1);
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).seq, sets_head(&d.sets, "demo").last);
    dumping_check_resources(&d, dumping_current(&d).number);
}

/* it says of how many resources, and comes when nothing is missing. */
TEST(waits_until_all_content_is_there)
{
    const struct build_order *order;

    set_changes_put(&d.sets, "demo", "{\"content\":\"fetch\"}");
    dumping_post(&d, 1, "created", "one");
    dumping_promise(&d, 2, "two");
    dumping_promise(&d, 3, "three");
    order = order_refused(state, STATUS_NOT_FOUND);
    assert_int_equal(order->missing, 2);
    assert_string_equal(order->why.text,
                        "the content of 2 of the 3 resources of the set demo "
                        "is not there: it can have no Resource Dump yet");
    dumping_keep(&d, 2, "two");
    dumping_give_up(&d, 3);
    order = dumping_order(&d, GENERATION_RESOURCEDUMP);
    assert_int_equal(order->missing, 1);
    dumping_post(&d, 3, "updated", "at last");
    build();
    assert_int_equal(dumping_current(&d).number, 1);
    dumping_check_resources(&d, 1);
}

TEST(a_set_that_keeps_no_content_has_none)
{
    const struct build_order *order;

    set_changes_put(&d.sets, "demo",
                    "{\"content\":\"none\",\"resourceDumpEvery\":0.000001,"
                    "\"resourceListEvery\":0.000001}");
    dumping_post(&d, 1, "created", NULL);
    dumping_work(&d);
    assert_int_equal(list_current().number, 1);
    order = order_refused(state, STATUS_NOT_FOUND);
    assert_int_equal(order->missing, 1);
    assert_string_equal(
        order->why.text,
        "the set demo keeps no content: it has no Resource Dump");
}

/* the broker offers no dump with bytes other than the stated ones. */
TEST(damaged_content_is_not_packed)
{
    const struct build_order *order;
    char path[200];
    int fd;

    dumping_post(&d, 1, "created", "one");
    dumping_post(&d, 2, "created", "two");
    dumping_work(&d);
    path_of("two", path);
    fd = openat(tempdir_fd(state), path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "TWO", 3), 3);
    close(fd);
    order = order_refused(state, STATUS_INVALID);
    assert_ptr_equal(strstr(order->why.text,
                            "the content for resources/000000000002.txt is "
                            "damaged: it is sha-256:"),
                     order->why.text);
    dumping_post(&d, 2, "updated", "two, again");
    build();
    dumping_check_resources(&d, 1);
}

TEST(content_that_has_vanished_is_not_packed)
{
    const struct build_order *order;
    char path[200];

    dumping_post(&d, 1, "created", "one");
    dumping_work(&d);
    path_of("one", path);
    assert_int_equal(unlinkat(tempdir_fd(state), path, 0), 0);
    order = order_refused(state, STATUS_INVALID);
    assert_string_equal(order->why.text,
                        "the content sha-256:7692c3ad3540bb803c020b3aee66cd8887"
                        "123234ea0c6e7143c0add73ff431ed is not there");
}

/* The size of a package is known before it is written. */
TEST(what_has_no_room_on_the_disk_is_not_begun)
{
    const struct build_order *order;

    dumping_post(&d, 1, "created", "one");
    dumping_work(&d);
    free_bytes = UINT64_C(256) << 20;
    order = order_refused(state, STATUS_BUSY);
    free_bytes = 0;
    assert_non_null(strstr(order->why.text, " has no room on the disk, where "
                                            "268435456 are free and 268435456 "
                                            "are to stay so"));
    build();
}

/* kept dumps stay as they were. */
TEST(some_are_kept_in_the_archive)
{
    struct buf then, now;

    set_changes_put(&d.sets, "demo",
                    "{\"content\":\"inline\",\"resourceDumpKeep\":2}");
    for (unsigned i = 1; i <= 4; i++) {
        post(i, 1);
        build();
        if (i == 2)
            dumping_text(&d, dumps_package_open, 2, 1, &then);
    }
    assert_int_equal(dumping_n_archived(&d), 2);
    while (generation_sweep_one(d.sets.registry))
        ;
    dumping_text(&d, dumps_package_open, 2, 1, &now);
    assert_true(slice_equal(buf_slice(&then), buf_slice(&now)));
    buf_fini(&then);
    buf_fini(&now);
    assert_no_file(tempdir_fd(state), FIRST);
    assert_no_file(tempdir_fd(state), "sets/demo/resourcedump/000000000003");
}

/* A process that ends removes its build; the next one begins anew. */
TEST(a_build_that_was_cut_off_leaves_nothing)
{
    d.sets.config.package_bytes = 5000;
    post(1, 60);
    set_changes_put(&d.sets, "demo", INLINE_AT_ONCE);
    begin();
    for (unsigned i = 0; i < 5; i++)
        dumping_round(&d);
    assert_there(state, FIRST "/000000000001.zip");
    dumping_end(&d);
    assert_no_file(tempdir_fd(state), FIRST);
    dumping_begin(&d);
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 1);
    dumping_check_resources(&d, 1);
}

/* Nobody waits for it at the end of the process. */
TEST(is_given_up_when_the_log_ends)
{
    post(1, 60);
    set_changes_put(&d.sets, "demo", INLINE_AT_ONCE);
    begin();
    for (unsigned i = 0; i < 3; i++) /* it is to be copied now */
        assert_true(chore_step(&d.schedule.chore));
    assert_non_null(d.schedule.build);
    log_stop(d.sets.registry->log);
    assert_true(chore_step(&d.schedule.chore));
    assert_null(d.schedule.build);
    assert_no_file(tempdir_fd(state), FIRST);
    assert_int_equal(dumping_current(&d).number, 0);
}

/* a dump is one document, however small its packages are to be. */
TEST(packages_grow_before_there_are_too_many)
{
    uint64_t bytes = 0;

    assert_int_equal(build_package_limit((uint64_t)1 << 30, 0), 1 << 30);
    assert_int_equal(build_package_limit((uint64_t)1 << 30, 2499), 1 << 30);
    for (size_t n = 0; n < DOCUMENT_ENTRIES_MAX; n++)
        bytes += build_package_limit(1024, n);
    assert_true(bytes > (uint64_t)1 << 41);
    assert_true(build_package_limit((uint64_t)1 << 40,
                                    DOCUMENT_ENTRIES_MAX - 1) > (uint64_t)1
                                                                    << 40);
}
