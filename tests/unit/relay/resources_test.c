/*
 * resources_test.c - all resources of a source become one document.
 */
#include "client/relay/resources.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/test.h"

#define VIA(loc) "\"links\":[{\"rel\":\"via\",\"href\":\"" loc "\"}]"
#define PATH(path)                                     \
    "\"attributes\":[{\"ns\":\"urn:tidings:relay:1\"," \
    "\"name\":\"path\",\"value\":\"" path "\"}]"

static const struct relay_rules rules = {"", "bbbb", false};

static void
add(struct relay_resources *r, const char *text)
{
    assert_true(relay_resources_add(r, text, strlen(text)));
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
    struct relay_resources *r = relay_resources_new();

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

/* td_publish_full takes no document that does not say what it is. */
TEST(writes_a_list_where_there_are_none)
{
    struct relay_resources *r = relay_resources_new();

    assert_non_null(r);
    assert_written(
        r, "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"/>");
    relay_resources_free(r);
}

/* A resource that came from the target would be missing in the document: the
 * target would delete it. */
TEST(refuses_resources_of_the_target_itself)
{
    struct relay_resources *r = relay_resources_new();
    int fd;

    assert_non_null(r);
    assert_false(relay_resources_add(r, "{}", 2));
    add(r, "{\"loc\":\"u:1\"," PATH("aaaa bbbb") "}");
    assert_false(relay_resources_write(r, &rules, &fd));
    assert_int_equal(fd, -1);
    assert_non_null(strstr(relay_resources_trouble(r),
                           "the source has \"u:1\" from the target itself"));
    relay_resources_free(r);
}

static void
on_full(int number)
{
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

    (void)number;
    setrlimit(RLIMIT_FSIZE, &all);
}

/* The disk is full for one write, and has room for the next ones: the document
 * lacks resources, which the target would delete. */
TEST(a_document_with_a_hole_is_not_written)
{
    const struct rlimit few = {4096, RLIM_INFINITY};
    struct relay_resources *r = relay_resources_new();
    char text[64];
    int fd;

    assert_non_null(r);
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof(text), "{\"loc\":\"u:%d\"}", i);
        add(r, text);
    }
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
