/*
 * resourcedump_test.c - Resource Dumps of the real broker: when they are built,
 * what is offered, and that a mirror begins with one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/hash.h"
#include "tests/support/build.h"
#include "tests/support/jsonpath.h"
#include "tests/support/mirrored.h"
#include "tests/support/multipart.h"
#include "tests/support/patience.h"
#include "tests/support/schema.h"
#include "tests/support/shell.h"
#include "tests/support/unzipped.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

static void
configure(struct mirrored *m, const char *settings)
{
    static const char *const json[] = {"Content-Type: application/json", NULL};
    long status =
        http_request(&m->http, "PUT", "/sets/news", json, slice_of(settings));

    if (status != 200 && status != 201)
        fail_msg("%ld %.*s", status, SLICE_ARG(buf_slice(&m->http.body)));
}

/* Resources /FROM.txt to /TO.txt change; NULL: they are deleted. */
static void
change(struct mirrored *m, unsigned from, unsigned to, const char *text)
{
    for (unsigned i = from; i <= to; i++) {
        char path[32], of_it[48];

        snprintf(path, sizeof(path), "/%u.txt", i);
        snprintf(of_it, sizeof(of_it), "%s %u\n", text ? text : "", i);
        mirrored_change(m, path, text ? of_it : NULL);
    }
}

/* Posts what has changed with its bytes: those of /FROM.txt to /TO.txt. */
static void
post(struct mirrored *m, unsigned from, unsigned to, const char *text)
{
    struct multipart_body body;

    buf_add(&m->post, "]", 2);
    multipart_body_open(&body, "application/json", m->post.data);
    for (unsigned i = from; text && i <= to; i++) {
        char loc[120], of_it[48];

        snprintf(loc, sizeof(loc), "%s/%u.txt", site_url(m->site), i);
        snprintf(of_it, sizeof(of_it), "%s %u\n", text, i);
        multipart_body_add(&body, loc, "text/plain", slice_of(of_it));
    }
    multipart_body_close(&body);
    if (http_post(&m->http, "/sets/news/changes", MULTIPART_TYPE,
                  buf_slice(&body.bytes)) != 200)
        fail_msg("%.*s", SLICE_ARG(buf_slice(&m->http.body)));
    multipart_body_free(&body);
    buf_clear(&m->post);
}

static void
change_and_post(struct mirrored *m, unsigned from, unsigned to,
                const char *text)
{
    change(m, from, to, text);
    post(m, from, to, text);
}

static long
build_dump(struct mirrored *m)
{
    return build(&m->http, "/sets/news/resourcedump");
}

/* A valid document that must be there. */
static void
get_document(struct mirrored *m, const char *path, struct xpath *x)
{
    if (http_get(&m->http, path) != 200)
        fail_msg("%s: %ld", path, m->http.status);
    assert_valid(buf_slice(&m->http.body));
    xpath_open(x, buf_slice(&m->http.body));
}

/* Of a URL of the broker. */
static const char *
path_of(const struct mirrored *m, const char *url)
{
    size_t size = strlen(m->broker.url);

    if (strncmp(url, m->broker.url, size) != 0)
        fail_msg("%s is not the broker's", url);
    return url + size;
}

static void
assert_answer(struct mirrored *m, const char *member, uint64_t number)
{
    struct jsonpath j;

    jsonpath_open(&j, buf_slice(&m->http.body));
    assert_int_equal(jsonpath_number(&j, member), number);
    jsonpath_close(&j);
}

/* How many entries of the Capability List are of that capability. */
static size_t
capabilities(struct mirrored *m, const char *name)
{
    char question[120];
    struct xpath x;
    size_t n;

    get_document(m, "/sets/news/capabilitylist.xml", &x);
    snprintf(question, sizeof(question),
             "/s:urlset/s:url[rs:md/@capability='%s']", name);
    n = xpath_count(&x, question);
    xpath_close(&x);
    return n;
}

/* what its entry in the dump says of a package. */
static void
check_package(struct mirrored *m, struct xpath *dump, size_t number,
              size_t *n_members)
{
    static const char *const whats[] = {
        "string(/*/s:url[%zu]/s:loc)", "string(/*/s:url[%zu]/rs:md/@length)",
        "string(/*/s:url[%zu]/rs:md/@type)",
        "string(/*/s:url[%zu]/rs:md/@hash)",
        "string(/*/s:url[%zu]/rs:ln[@rel='contents']/@href)"};
    const char *of[5];
    char sha256[DIGEST_TEXT_SIZE + 1] = "";
    struct digest digest;
    struct unzipped u;

    for (size_t i = 0; i < 5; i++) {
        char question[120];

        snprintf(question, sizeof(question), whats[i], number);
        of[i] = xpath_get(dump, question);
    }
    assert_int_equal(http_get(&m->http, path_of(m, of[0])), 200);
    assert_string_equal(http_header(&m->http, "Content-Length"), of[1]);
    assert_string_equal(http_header(&m->http, "Content-Type"), of[2]);
    digest_sha256(&digest, buf_slice(&m->http.body));
    digest_write(sha256, &digest);
    assert_string_equal(sha256, of[3]);
    unzipped_open(&u, buf_slice(&m->http.body));
    unzipped_check(&u);
    assert_int_equal(http_get(&m->http, path_of(m, of[4])), 200);
    assert_valid(buf_slice(&m->http.body));
    assert_true(slice_equal(u.members[0].bytes, buf_slice(&m->http.body)));
    *n_members += u.n - 1;
    unzipped_close(&u);
}

/* nothing before there is one; then it says what it is. */
TEST(is_offered_from_the_first_one_on)
{
    struct mirrored *m = *state;
    size_t n_members = 0;
    struct xpath x;
    size_t n;

    configure(m, "{\"content\":\"inline\"}");
    change_and_post(m, 1, 40, "first");
    assert_int_equal(http_get(&m->http, "/sets/news/resourcedump.xml"), 404);
    assert_int_equal(capabilities(m, "resourcedump"), 0);

    assert_int_equal(build_dump(m), 200);
    assert_answer(m, "generation", 1);
    assert_answer(m, "resources", 40);
    assert_answer(m, "packages", 1);
    assert_int_equal(capabilities(m, "resourcedump"), 1);
    assert_int_equal(capabilities(m, "resourcelist"), 1); /* */
    get_document(m, "/sets/news/resourcedump.xml", &x);
    n = xpath_count(&x, "/s:urlset/s:url");
    assert_int_equal(n, 1);
    for (size_t i = 1; i <= n; i++)
        check_package(m, &x, i, &n_members);
    assert_int_equal(n_members, 40);
    xpath_close(&x);

    /* Nothing has changed: it is the same one, at once. */
    assert_int_equal(build_dump(m), 200);
    assert_answer(m, "generation", 1);
}

FIXTURE(mirrored_setup, mirrored_teardown);

/* not by us. */
TEST(its_packages_open_in_common_tools)
{
    struct mirrored *m = *state;

    configure(m, "{\"content\":\"inline\"}");
    change_and_post(m, 1, 300, "text");
    assert_int_equal(build_dump(m), 200);
    shell_do("cd '%s' && curl -sf -o p.zip"
             " %s/sets/news/resourcedump/000000000001/000000000001.zip &&"
             " unzip -t p.zip && python3 -c 'import zipfile\n"
             "z = zipfile.ZipFile(\"p.zip\")\n"
             "assert z.testzip() is None\n"
             "assert len(z.namelist()) == 301\n"
             "assert z.read(\"resources/000000000300.txt\") =="
             " b\"text 300\\n\"'",
             m->home.path, m->broker.url);
}

/* The site is not asked for what is in the dump. */
static void
assert_begins_with_the_dump(struct mirrored *m, bool is_cut)
{
    change_and_post(m, 1, 30, "first");
    change_and_post(m, 3, 4, NULL);
    change_and_post(m, 5, 6, "second");
    assert_int_equal(build_dump(m), 200);
    change_and_post(m, 7, 7, "third");
    change_and_post(m, 8, 8, NULL);
    change_and_post(m, 31, 31, "new");
    if (is_cut)
        mirrored_await_cut(m);
    if (mirrored_sync(m, NULL))
        fail_msg("%s", m->command.err_text);
    mirrored_assert_same(m);
    assert_int_equal(site_count(m->site, "/1.txt"), 0);
    assert_int_equal(site_count(m->site, "/5.txt"), 0);
    assert_int_equal(site_count(m->site, "/30.txt"), 0);
    if (mirrored_audit(m, NULL))
        fail_msg("%s", m->command.out_text);
}

/* where the history does not tell all, a mirror begins with the
 * dump, and goes on where it stands. */
TEST(a_mirror_begins_with_the_dump)
{
    configure(*state, "{\"content\":\"inline\",\"rotateEntries\":5,"
                      "\"retainLists\":1}");
    assert_begins_with_the_dump(*state, true);
}

/* also where the whole history is there: one package is got sooner than
 * all that is in it. */
TEST(a_mirror_prefers_the_dump_to_the_history)
{
    configure(*state, "{\"content\":\"inline\"}");
    assert_begins_with_the_dump(*state, false);
}

/* it says of how many resources the content is not there. */
TEST(what_is_not_whole_is_refused)
{
    struct mirrored *m = *state;

    change(m, 1, 3, "first");
    mirrored_post(m);
    assert_int_equal(build_dump(m), 409);
    assert_answer(m, "missing", 3);
    assert_null(http_header(&m->http, "Retry-After"));
    configure(m, "{\"content\":\"inline\"}");
    change_and_post(m, 2, 4, "second");
    assert_int_equal(build_dump(m), 409);
    assert_answer(m, "missing", 1);
    assert_int_equal(http_get(&m->http, "/sets/news/resourcedump.xml"), 404);
    change_and_post(m, 1, 1, "second");
    assert_int_equal(build_dump(m), 200);
    assert_answer(m, "resources", 4);
}

/* Nobody asks for it. */
TEST(is_built_by_age)
{
    struct patience p = {.with = "the Resource Dump"};
    struct mirrored *m = *state;

    configure(m, "{\"content\":\"inline\",\"resourceDumpEvery\":0.1}");
    change_and_post(m, 1, 3, "first");
    while (http_get(&m->http, "/sets/news/resourcedump.xml") != 200)
        patience_step(&p);
    assert_valid(buf_slice(&m->http.body));
}
