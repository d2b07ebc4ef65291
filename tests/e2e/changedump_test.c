/*
 * changedump_test.c - Change Dumps of the real broker: what is offered, what
 * the packages have, and that nothing of it is ever missing.
 *
 * Packages are read by the library's own reader (client/dumps/package.h), as a
 * follower that comes late reads them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/dumps/package.h"
#include "tests/support/dumped.h"
#include "tests/support/patience.h"
#include "tests/support/source.h"
#include "tests/support/unzipped.h"
#include "tests/test.h"

/* The entry is the next one that was told. */
static void
check_entry(struct dumped *s, struct xpath *manifest, size_t i)
{
    const struct dumped_told *t = &s->told[++s->seq];
    char loc[60];

    snprintf(loc, sizeof(loc), "http://example.com/r/%u.bin", t->number);
    assert_string_equal(dumped_of_entry(manifest, i, "s:loc"), loc);
    assert_string_equal(dumped_of_entry(manifest, i, "rs:md/@change"),
                        change_kind_name(t->kind));
    assert_int_equal(
        strtoull(dumped_of_entry(manifest, i, "rs:md/@td:seq"), NULL, 10),
        s->seq);
    assert_int_equal(dumped_of_entry(manifest, i, "rs:md/@path")[0] == '\0',
                     t->kind == CHANGE_DELETED);
    if (t->kind != CHANGE_DELETED)
        assert_string_equal(dumped_of_entry(manifest, i, "rs:md/@type"),
                            "application/octet-stream");
}

/* The member is what was posted with that change. */
static void
check_member(struct dumped *s, int dir, struct package *package,
             struct xpath *manifest, size_t i, uint64_t seq)
{
    const struct dumped_told *t = &s->told[seq];
    struct slice path = slice_of(dumped_of_entry(manifest, i, "rs:md/@path"));
    char name[PACKAGE_NAME_SIZE], *bytes;
    struct failure why;
    bool is_over = false;
    int fd;

    if (package_find(package, path, &why))
        fail_msg("%s", why.text);
    while (!is_over)
        if (package_take(package, &is_over, name, &why))
            fail_msg("%s", why.text);
    bytes = malloc(t->size + 2);
    assert_non_null(bytes);
    fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, bytes, t->size + 2), (ssize_t)t->size);
    for (size_t k = 0; k < t->size; k++)
        assert_int_equal(bytes[k], t->byte);
    close(fd);
    free(bytes);
    unlinkat(dir, name, 0);
}

/* All members of the package that is the file "package.zip". */
static void
check_members(struct dumped *s, int dir, struct xpath *manifest, uint64_t first)
{
    size_t n = xpath_count(manifest, "/s:urlset/s:url");
    struct package *package;
    struct failure why;
    char hash[200];

    if (package_open(&package, dir, "package.zip", &why))
        fail_msg("%s", why.text);
    for (size_t i = 1; i <= n; i++) {
        snprintf(hash, sizeof(hash), "%s",
                 dumped_of_entry(manifest, i, "rs:md/@hash"));
        if (s->told[first + i - 1].kind != CHANGE_DELETED &&
            package_expect(
                package, slice_of(dumped_of_entry(manifest, i, "rs:md/@path")),
                strtoull(dumped_of_entry(manifest, i, "rs:md/@length"), NULL,
                         10),
                slice_of(hash), &why))
            fail_msg("%s", why.text);
    }
    for (size_t i = 1; i <= n; i++)
        if (s->told[first + i - 1].kind != CHANGE_DELETED)
            check_member(s, dir, package, manifest, i, first + i - 1);
    package_close(package);
}

static void
write_package(int dir, struct slice bytes)
{
    int fd = openat(dir, "package.zip",
                    O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.data, bytes.size), (ssize_t)bytes.size);
    close(fd);
}

/* what its entry in the dump says. */
static void
read_package(struct dumped *s, struct xpath *dump, size_t part)
{
    size_t root = strlen(s->broker.url);
    uint64_t first = s->seq + 1;
    struct xpath manifest;
    struct unzipped u;
    char url[300], text[40];

    assert_string_equal(dumped_of_entry(dump, part, "rs:md/@from"), s->until);
    snprintf(url, sizeof(url), "%s", dumped_of_entry(dump, part, "s:loc"));
    assert_int_equal(http_get(&s->http, url + root), 200);
    assert_string_equal(http_header(&s->http, "Content-Type"),
                        dumped_of_entry(dump, part, "rs:md/@type"));
    snprintf(text, sizeof(text), "%zu", s->http.body.size);
    assert_string_equal(dumped_of_entry(dump, part, "rs:md/@length"), text);
    write_package(s->broker.dir.fd, buf_slice(&s->http.body));
    unzipped_open(&u, buf_slice(&s->http.body));
    unzipped_check(&u);

    snprintf(url, sizeof(url), "%s",
             dumped_of_entry(dump, part, "rs:ln[@rel='contents']/@href"));
    dumped_document(s, url, &manifest);
    assert_true(slice_equal(u.members[0].bytes, buf_slice(&s->http.body)));
    unzipped_close(&u);
    assert_xpath_count(&manifest,
                       "/s:urlset/rs:md[@capability='changedump-manifest']", 1);
    for (size_t i = 1, n = xpath_count(&manifest, "/*/s:url"); i <= n; i++)
        check_entry(s, &manifest, i);
    check_members(s, s->broker.dir.fd, &manifest, first);
    snprintf(s->until, sizeof(s->until), "%s",
             dumped_of_entry(dump, part, "rs:md/@until"));
    assert_xpath_text(&manifest, "/*/rs:md/@until", s->until);
    s->n_packages++;
    xpath_close(&manifest);
}

/* A dump that goes on where the last one ended, or behind a gap. */
static void
read_dump(struct dumped *s, const char *url)
{
    struct xpath x;
    uint64_t after;

    dumped_document(s, url, &x);
    assert_xpath_count(&x, "/s:urlset/rs:md[@capability='changedump']", 1);
    after = strtoull(xpath_get(&x, "string(/*/rs:md/@td:after)"), NULL, 10);
    assert_true(after >= s->seq);
    s->n_gaps += after > s->seq;
    if (after > s->seq || s->until[0] == '\0')
        snprintf(s->until, sizeof(s->until), "%s",
                 xpath_get(&x, "string(/*/rs:md/@from)"));
    s->seq = after;
    for (size_t i = 1, n = xpath_count(&x, "/*/s:url"); i <= n; i++)
        read_package(s, &x, i);
    assert_xpath_text(&x, "/*/rs:md/@until", s->until);
    xpath_close(&x);
}

/* All dumps that a document names, or the documents that it names. */
static void
read_all(struct dumped *s, const char *url)
{
    struct xpath x;
    size_t n;
    bool is_dump;

    dumped_document(s, url, &x);
    n = xpath_count(&x, "/*/s:*[s:loc]");
    is_dump = xpath_count(&x, "/s:urlset/rs:md[@capability='changedump']") > 0;
    if (is_dump)
        read_dump(s, url);
    for (size_t i = 1; !is_dump && i <= n; i++)
        read_all(s, dumped_of_entry(&x, i, "s:loc"));
    xpath_close(&x);
}

static void
read_from_the_start(struct dumped *s, const char *url)
{
    s->seq = 0;
    s->until[0] = '\0';
    s->n_packages = s->n_gaps = 0;
    read_all(s, url);
}

/* Tests */

FIXTURE(dumped_setup, dumped_teardown);

/* nothing is offered before it is there, and then
 * it is told. */
TEST(is_offered_from_the_first_one_on)
{
    struct dumped *s = *state;
    char url[300], expected[300];

    DUMPED_OPEN(s, "--content", "none");
    dumped_change(s, 3, 100);
    assert_string_equal(dumped_offered(s, "changedump", url), "");
    assert_string_equal(dumped_offered(s, "changedump-archive", url), "");
    assert_int_equal(http_get(&s->http, "/sets/demo/changedump.xml"), 404);
    assert_int_equal(http_get(&s->http, "/sets/demo/changedump-archive.xml"),
                     404);

    source_rotate(&s->http, "demo");
    dumped_await(s, 3);
    snprintf(expected, sizeof(expected), "%s/sets/demo/changedump.xml",
             s->broker.url);
    assert_string_equal(dumped_offered(s, "changedump", url), expected);
    snprintf(expected, sizeof(expected), "%s/sets/demo/changedump-archive.xml",
             s->broker.url);
    assert_string_equal(dumped_offered(s, "changedump-archive", url), expected);
    assert_int_equal(http_get(&s->http, "/sets/demo"), 200);
    buf_add(&s->http.body, "", 1);
    assert_non_null(strstr(s->http.body.data, "\"rel\":\"changedump\""));

    dumped_assert_told(s, "changedump.xml", "changedump", "created");
    dumped_assert_told(s, "changedump-archive.xml", "changedump-archive",
                       "created");
    dumped_assert_told(s, "capabilitylist.xml", "capabilitylist", "updated");
    read_from_the_start(s, expected);
    assert_int_equal(s->seq, 3);

    dumped_change(s, 2, 100);
    source_rotate(&s->http, "demo");
    dumped_await(s, 5);
    dumped_assert_told(s, "changedump/000000000002.xml", "changedump",
                       "created");
    dumped_assert_told(s, "changedump-archive.xml", "changedump-archive",
                       "updated");
}

/* all dumps together are what was told, in order,
 * each change with the bytes that it had then, whatever came later. */
TEST(all_dumps_are_the_history_with_its_content)
{
    struct dumped *s = *state;
    char url[300];

    DUMPED_OPEN(s, "--rotate-entries", "20", "--package-bytes", "20000",
                "--index-lists", "4");
    while (s->last < 400)
        dumped_change(s, 1 + dumped_random_below(s, 17), 3000);
    source_rotate(&s->http, "demo");
    dumped_await(s, s->last);

    read_from_the_start(s, dumped_offered(s, "changedump-archive", url));
    assert_int_equal(s->seq, s->last);
    assert_int_equal(s->n_gaps, 0);
    assert_in_range(s->n_packages, 22, 400);

    /* The index has the last ones of these. */
    read_from_the_start(s, dumped_offered(s, "changedump", url));
    assert_int_equal(s->seq, s->last);
    assert_int_equal(s->n_gaps, 1);
}

/* a crash leaves no gap, and nothing half done. */
TEST(a_crash_leaves_no_gap)
{
    struct dumped *s = *state;
    char url[300];

    DUMPED_OPEN(s, "--rotate-entries", "10", "--package-bytes", "20000");
    for (unsigned round = 0; round < 4; round++) {
        while (s->last < 100 * (round + 1))
            dumped_change(s, 10, 4000);
        broker_kill9(&s->broker);
        broker_restart(&s->broker);
    }
    dumped_await(s, s->last);
    read_from_the_start(s, dumped_offered(s, "changedump-archive", url));
    assert_int_equal(s->seq, s->last);
    assert_int_equal(s->n_gaps, 0);
}

/* however short the history, each list has a dump before it
 * goes; and the dumps go as the lists do. */
TEST(a_short_history_has_dumps_too)
{
    struct dumped *s = *state;
    struct patience p = {.with = "the end of old dumps"};
    char url[300];

    DUMPED_OPEN(s, "--rotate-entries", "10", "--retain-lists", "2");
    for (unsigned i = 1; i <= 12; i++) {
        dumped_change(s, 10, 1000);
        if (i % 3 == 0)
            dumped_await(s, s->last);
    }
    do {
        patience_step(&p);
        read_from_the_start(s, dumped_offered(s, "changedump-archive", url));
        assert_int_equal(s->seq, s->last);
    } while (s->n_packages > 2);
}
