/*
 * resources_test.c - all resources of a source become one document.
 */
#include "client/relay/relay_resources.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/test.h"

#define VIA(loc) "\"links\":[{\"rel\":\"via\",\"href\":\"" loc "\"}]"
#define PATH(path)                                     \
    "\"attributes\":[{\"ns\":\"urn:tidings:relay:1\"," \
    "\"name\":\"path\",\"value\":\"" path "\"}]"

static const struct relay_rules rules = {"", "bbbb", false};

static const struct td_limits limits = {.min_free_bytes = 100};
static unsigned free_bytes; /* of every disk */

int
statvfs(const char *path, struct statvfs *fs)
{
    (void)path;
    *fs = (struct statvfs){.f_frsize = 1, .f_bavail = free_bytes};
    return 0;
}

static int
set_disk(void **state)
{
    (void)state;
    free_bytes = 1 << 20;
    return 0;
}

FIXTURE(set_disk, set_disk);

static void
add(struct relay_resources *r, const char *text)
{
    assert_true(relay_resources_add(r, slice_of(text)));
}

static void
assert_written(struct relay_resources *r, const char *expected)
{
    char written[1024];
    ssize_t size;
    int fd;

    assert_true(relay_resources_write(r, &rules, &fd));
    size = pread(fd, written, sizeof(written) - 1, 0);
    assert_true(size >= 0);
    written[size] = '\0';
    assert_string_equal(written, expected);
    close(fd);
}

/* A resource that comes twice counts once, as it came last. */
TEST(writes_each_resource_once)
{
    struct relay_resources *r = relay_resources_new(&limits);

    assert_non_null(r);
    add(r, "{\"loc\":\"u:1\",\"length\":1}");
    add(r, "{\"loc\":\"u:2\"}");
    add(r, "{\"loc\":\"u:1\",\"length\":2}");
    for (int i = 0; i < 2; i++)
        assert_written(
            r, "{\"loc\":\"u:2\"," VIA(
                   "u:2") "}\n"
                          "{\"loc\":\"u:1\",\"length\":2," VIA("u:1") "}\n");
    relay_resources_free(r);
}

/* td_publish_full takes no document without a root that names its kind. */
TEST(writes_a_list_where_there_are_none)
{
    struct relay_resources *r = relay_resources_new(&limits);

    assert_non_null(r);
    assert_written(
        r, "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"/>");
    relay_resources_free(r);
}

/* A resource that came from the target would be missing in the document: the
 * target would delete it. */
TEST(refuses_resources_of_the_target_itself)
{
    struct relay_resources *r = relay_resources_new(&limits);
    int fd;

    assert_non_null(r);
    assert_false(relay_resources_add(r, SLICE("{}")));
    add(r, "{\"loc\":\"u:1\"," PATH("aaaa bbbb") "}");
    assert_false(relay_resources_write(r, &rules, &fd));
    assert_int_equal(fd, -1);
    assert_non_null(strstr(relay_resources_trouble(r),
                           "the source has \"u:1\" from the target itself"));
    relay_resources_free(r);
}

/* A document without it would delete it at the target. */
TEST(refuses_what_it_cannot_read)
{
    struct relay_resources *r = relay_resources_new(&limits);
    int fd;

    assert_non_null(r);
    add(r, "{\"loc\":1}");
    assert_false(relay_resources_write(r, &rules, &fd));
    assert_int_equal(fd, -1);
    assert_string_equal(relay_resources_trouble(r),
                        "a resource that cannot be read");
    relay_resources_free(r);
}

static struct rlimit file_sizes; /* before the disk is full */

static void
on_full(int number)
{
    (void)number;
    setrlimit(RLIMIT_FSIZE, &file_sizes);
}

/* The disk is full for one write, and has room for the next ones: the document
 * lacks resources, which the target would delete. */
TEST(a_document_with_a_hole_is_not_written)
{
    struct rlimit few;
    struct relay_resources *r = relay_resources_new(&limits);
    char text[64];
    int fd;

    assert_non_null(r);
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof(text), "{\"loc\":\"u:%d\"}", i);
        add(r, text);
    }
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &file_sizes), 0);
    few = (struct rlimit){4096, file_sizes.rlim_max};
    signal(SIGXFSZ, on_full);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    assert_false(relay_resources_write(r, &rules, &fd));
    assert_int_equal(fd, -1);
    assert_string_equal(relay_resources_trouble(r),
                        "cannot write a temporary file: File too large");
    assert_true(relay_resources_write(r, &rules, &fd));
    close(fd);
    relay_resources_free(r);
}

/* Neither the resources nor the document take what has to stay free. */
TEST(leaves_the_disk_its_free_bytes)
{
    struct relay_resources *r = relay_resources_new(&limits);
    char loc[40];
    int fd;

    assert_non_null(r);
    free_bytes = 99;
    assert_false(relay_resources_add(r, SLICE("{\"loc\":\"u:1\"}")));
    assert_non_null(strstr(relay_resources_trouble(r), "--min-free keeps"));
    free_bytes = 1 << 20;
    for (int i = 0; i < 5000; i++) {
        snprintf(loc, sizeof(loc), "{\"loc\":\"u:%d\"}", 10000 + i);
        add(r, loc);
    }
    free_bytes = 99;
    assert_false(relay_resources_write(r, &rules, &fd));
    assert_int_equal(fd, -1);
    assert_non_null(strstr(relay_resources_trouble(r), "--min-free keeps"));
    relay_resources_free(r);
}
