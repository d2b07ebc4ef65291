/*
 * caching_test.c - whoever has a document need not be sent it again: ETags,
 * conditions, gzip, and what caches are told (R-034).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/build.h"
#include "tests/support/command.h"
#include "tests/support/gzip.h"
#include "tests/support/lists.h"
#include "tests/support/patience.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define GZIP     "Accept-Encoding: gzip"
#define TEXT_MAX 200

#define INDEX   "/sets/" LISTS_SET "/changelist.xml"
#define ARCHIVE "/sets/" LISTS_SET "/changelist-archive.xml"
#define LATEST  "/sets/" LISTS_SET "/changes/latest.xml"

static const char *const documents[] = {
    "/.well-known/resourcesync",
    "/sets/" LISTS_SET "/capabilitylist.xml",
    INDEX,
    ARCHIVE,
    LATEST,
    "/sets/" LISTS_SET "/changes/000000000001.xml",
    "/sets/" LISTS_SET "/changes/000000000002.xml",
    "/sets/" LISTS_SET "/changes/000000000003.xml",
};

#define N_DOCUMENTS (sizeof(documents) / sizeof(documents[0]))

/* A line "NAME: VALUE" with the value of an answer's header; lent to `to`. */
static const char *
line_of(struct http *h, const char *name, const char *header, char *to)
{
    const char *value = http_header(h, header);

    if (!value)
        fail_msg("no %s: %s", header, h->headers.data);
    snprintf(to, TEXT_MAX, "%s: %s", name, value);
    return to;
}

/* The ETag of a document that is there. */
static const char *
etag_of(struct http *h, const char *path, const char *accept, char *to)
{
    assert_int_equal(http_ask(h, "GET", path, accept, NULL), 200);
    return line_of(h, "If-None-Match", "ETag", to);
}

static void
assert_header(struct http *h, const char *name, const char *value)
{
    const char *is = http_header(h, name);

    if (!value && is)
        fail_msg("%s: %s", name, is);
    if (value && (!is || strcmp(is, value)))
        fail_msg("%s: %s instead of %s", name, is ? is : "none", value);
}

/* What an answer says of its bytes, whatever its method. */
static void
describe(struct http *h, char text[2048])
{
    static const char *const names[] = {
        "Content-Type", "Content-Length", "Content-Encoding",
        "ETag",         "Last-Modified",  "Cache-Control",
        "Vary",         "Accept-Ranges",  "Link",
    };
    int n = snprintf(text, 2048, "%ld", h->status);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = http_header(h, names[i]);

        n += snprintf(text + n, 2048 - (size_t)n, "\n%s: %s", names[i],
                      value ? value : "");
    }
}

/* A broker with two closed lists and an open one. */
static void
open_lists(struct lists *l)
{
    LISTS_OPEN(l, "--rotate-entries", "10");
    source_post(&l->http, LISTS_SET, 1, 25, 0);
    lists_await_gzip(l, 1);
    lists_await_gzip(l, 2);
}

FIXTURE(lists_setup, lists_teardown);

/* R-025, RFC 9110 section 9.3.2: HEAD says what GET would. */
TEST(head_says_of_each_document_what_get_does)
{
    static const char *const accepts[] = {GZIP, "Accept-Encoding:"};
    struct lists *l = *state;

    open_lists(l);
    for (size_t i = 0; i < 2 * N_DOCUMENTS; i++) {
        const char *path = documents[i / 2], *accept = accepts[i % 2];
        char get[2048], head[2048], size[32];

        assert_int_equal(http_ask(&l->http, "GET", path, accept, NULL), 200);
        snprintf(size, sizeof(size), "%zu", l->http.body.size);
        assert_header(&l->http, "Content-Length", size);
        describe(&l->http, get);
        assert_int_equal(http_ask(&l->http, "HEAD", path, accept, NULL), 200);
        assert_int_equal(l->http.body.size, 0);
        describe(&l->http, head);
        assert_string_equal(head, get);
    }
}

/* A closed list is for ever; all else is to be asked for again. What can come
 * as gzip says so to caches. */
TEST(caches_are_told_what_they_may_keep)
{
    struct lists *l = *state;

    open_lists(l);
    for (size_t i = 0; i < N_DOCUMENTS; i++) {
        bool is_list = strstr(documents[i], "/changes/0") != NULL;
        bool is_closed = is_list && !strstr(documents[i], "3.xml");

        assert_int_equal(http_get(&l->http, documents[i]), 200);
        assert_header(&l->http, "Cache-Control",
                      is_closed ? "public, max-age=31536000, immutable"
                                : "no-cache");
        assert_header(&l->http, "Vary", is_list ? "Accept-Encoding" : NULL);
        assert_header(&l->http, "Accept-Ranges", "bytes");
        assert_int_equal(http_header(&l->http, "Last-Modified") != NULL,
                         is_closed);
    }
}

/* R-034: after no change, 304. */
TEST(a_document_that_has_not_changed_is_not_sent_again)
{
    struct lists *l = *state;

    open_lists(l);
    for (size_t i = 0; i < N_DOCUMENTS; i++) {
        char etag[TEXT_MAX], say[TEXT_MAX], weak[TEXT_MAX + 20];

        etag_of(&l->http, documents[i], NULL, etag);
        assert_int_equal(http_ask(&l->http, "GET", documents[i], etag, NULL),
                         304);
        assert_int_equal(l->http.body.size, 0);
        assert_header(&l->http, "Content-Length", NULL);
        assert_header(&l->http, "Content-Type", NULL);
        assert_string_equal(line_of(&l->http, "If-None-Match", "ETag", say),
                            etag);
        assert_non_null(http_header(&l->http, "Cache-Control"));
        assert_int_equal(http_ask(&l->http, "HEAD", documents[i], etag, NULL),
                         304);

        snprintf(weak, sizeof(weak), "If-None-Match: \"x\", W/%s",
                 etag + strlen("If-None-Match: "));
        assert_int_equal(http_ask(&l->http, "GET", documents[i], weak, NULL),
                         304);
        assert_int_equal(
            http_ask(&l->http, "GET", documents[i], "If-None-Match: *", NULL),
            304);
        assert_int_equal(http_ask(&l->http, "GET", documents[i],
                                  "If-None-Match: \"x\"", NULL),
                         200);
        assert_int_equal(
            http_ask(&l->http, "GET", documents[i], "If-Match: \"x\"", NULL),
            412);
    }
}

/* R-034: after a change, 200: of the documents that it changes. */
TEST(a_change_shows_in_the_etags_of_the_documents_it_changes)
{
    struct lists *l = *state;
    char source[TEXT_MAX], index[TEXT_MAX], archive[TEXT_MAX], latest[TEXT_MAX],
        list[TEXT_MAX], closed[TEXT_MAX];

    open_lists(l);
    etag_of(&l->http, documents[0], NULL, source);
    etag_of(&l->http, INDEX, NULL, index);
    etag_of(&l->http, ARCHIVE, NULL, archive);
    etag_of(&l->http, LATEST, NULL, latest);
    etag_of(&l->http, lists_path(l, 3), NULL, list);
    assert_string_equal(latest, list); /* the same bytes */
    etag_of(&l->http, lists_path(l, 2), NULL, closed);

    /* An entry: of the open list. */
    source_post(&l->http, LISTS_SET, 100, 1, 0);
    assert_int_equal(http_ask(&l->http, "GET", LATEST, latest, NULL), 200);
    assert_int_equal(http_ask(&l->http, "GET", lists_path(l, 3), list, NULL),
                     200);
    assert_int_equal(http_ask(&l->http, "GET", INDEX, index, NULL), 304);
    assert_int_equal(http_ask(&l->http, "GET", ARCHIVE, archive, NULL), 304);

    /* An end: of it, and what names it. */
    etag_of(&l->http, lists_path(l, 3), NULL, list);
    source_rotate(&l->http, LISTS_SET);
    assert_int_equal(http_ask(&l->http, "GET", lists_path(l, 3), list, NULL),
                     200);
    assert_int_equal(http_ask(&l->http, "GET", INDEX, index, NULL), 200);
    assert_int_equal(http_ask(&l->http, "GET", ARCHIVE, archive, NULL), 200);
    assert_int_equal(http_ask(&l->http, "GET", lists_path(l, 2), closed, NULL),
                     304);
    assert_int_equal(http_ask(&l->http, "GET", documents[0], source, NULL),
                     304);

    /* A set: the Source Description. */
    source_post(&l->http, "another", 1, 1, 0);
    assert_int_equal(http_ask(&l->http, "GET", documents[0], source, NULL),
                     200);
}

/* log.md: an ETag is made of header and digest, so that nothing of it changes
 * when the file appears, nor in the next process. */
TEST(an_etag_survives_the_file_and_a_restart)
{
    struct lists *l = *state;
    char before[TEXT_MAX], after[TEXT_MAX], gzip[TEXT_MAX], time[TEXT_MAX],
        say[TEXT_MAX];

    LISTS_OPEN(l, "--rotate-entries", "50");
    lists_obstruct(l);
    source_post(&l->http, LISTS_SET, 1, 70, 0);
    etag_of(&l->http, lists_path(l, 1), GZIP, before);
    assert_header(&l->http, "Content-Encoding", NULL);
    assert_header(&l->http, "Last-Modified", NULL);
    assert_header(&l->http, "Vary", "Accept-Encoding");

    lists_clear(l);
    lists_await_gzip(l, 1);
    line_of(&l->http, "If-None-Match", "ETag", gzip);
    assert_string_not_equal(gzip, before);
    assert_string_equal(etag_of(&l->http, lists_path(l, 1), NULL, after),
                        before);
    line_of(&l->http, "If-Modified-Since", "Last-Modified", time);
    /* Who got it before there was a gzip has it still, whatever they accept. */
    assert_int_equal(
        http_ask(&l->http, "GET", lists_path(l, 1), GZIP, before, NULL), 304);
    assert_string_equal(line_of(&l->http, "If-None-Match", "ETag", say),
                        before);
    assert_int_equal(http_ask(&l->http, "GET", lists_path(l, 1), gzip, NULL),
                     200);

    for (int i = 0; i < 2; i++) {
        if (i == 0)
            broker_stop(&l->broker);
        else
            broker_kill9(&l->broker);
        broker_restart(&l->broker);
        assert_int_equal(
            http_ask(&l->http, "GET", lists_path(l, 1), before, NULL), 304);
        assert_int_equal(
            http_ask(&l->http, "GET", lists_path(l, 1), GZIP, gzip, NULL), 304);
        assert_int_equal(
            http_ask(&l->http, "GET", lists_path(l, 1), time, NULL), 304);
        assert_string_equal(etag_of(&l->http, lists_path(l, 1), GZIP, say),
                            gzip);
    }
}

/* The other documents' too: an index of thousands of lists need not be sent
 * because the broker was started anew. */
TEST(every_etag_survives_a_restart)
{
    char etags[N_DOCUMENTS][TEXT_MAX];
    struct lists *l = *state;

    open_lists(l);
    for (size_t i = 0; i < N_DOCUMENTS; i++)
        etag_of(&l->http, documents[i], NULL, etags[i]);
    broker_kill9(&l->broker);
    broker_restart(&l->broker);
    for (size_t i = 0; i < N_DOCUMENTS; i++)
        assert_int_equal(
            http_ask(&l->http, "GET", documents[i], etags[i], NULL), 304);
}

/* A copy of the open list may be as young as it can be: the closed one is never
 * held to be the same because of a date. */
TEST(a_date_never_hides_that_a_list_was_closed)
{
    struct lists *l = *state;
    char date[TEXT_MAX];

    LISTS_OPEN(l, NULL);
    source_post(&l->http, LISTS_SET, 1, 3, 0);
    assert_int_equal(http_get(&l->http, LATEST), 200);
    line_of(&l->http, "If-Modified-Since", "Date", date);
    assert_int_equal(http_ask(&l->http, "GET", LATEST, date, NULL), 200);
    source_post(&l->http, LISTS_SET, 4, 1, 0);
    assert_int_equal(http_ask(&l->http, "GET", LATEST, date, NULL), 200);
    assert_non_null(memmem(l->http.body.data, l->http.body.size, "/r/4<", 5));

    /* All entries were there, and the same second may be at work. */
    line_of(&l->http, "If-Modified-Since", "Date", date);
    source_rotate(&l->http, LISTS_SET);
    lists_await_gzip(l, 1);
    assert_int_equal(http_ask(&l->http, "GET", lists_path(l, 1), date, NULL),
                     200);
}

/* Reads the file of a list. */
static struct buf
read_file(struct lists *l, unsigned number)
{
    char path[500];
    struct buf bytes;
    FILE *file;
    int c;

    snprintf(path, sizeof(path), "%s%s.gz", l->broker.data,
             lists_path(l, number));
    file = fopen(path, "rb");
    assert_non_null(file);
    buf_init(&bytes, SIZE_MAX);
    while ((c = getc(file)) != EOF) {
        char byte = (char)c;

        buf_add(&bytes, &byte, 1);
    }
    fclose(file);
    return bytes;
}

/* R-023, R-139: as gzip, a list is its file; unpacked, it is the list. */
TEST(gzip_is_the_file_and_the_file_is_the_list)
{
    struct lists *l = *state;
    struct buf plain, file, unpacked;

    LISTS_OPEN(l, "--rotate-entries", "3000");
    source_post(&l->http, LISTS_SET, 1, 3000, 0);
    lists_await_gzip(l, 1);
    file = read_file(l, 1);
    assert_int_equal(l->http.body.size, file.size);
    assert_memory_equal(l->http.body.data, file.data, file.size);
    assert_header(&l->http, "Content-Encoding", "gzip");
    assert_header(&l->http, "Content-Type", "application/xml");

    plain = lists_copy(l, 1);
    buf_init(&unpacked, SIZE_MAX);
    gzip_inflate(&unpacked, buf_slice(&file));
    assert_true(slice_equal(buf_slice(&unpacked), buf_slice(&plain)));
    buf_fini(&plain);
    buf_fini(&file);
    buf_fini(&unpacked);
}

/* RFC 9110 section 12.5.3 */
TEST(who_refuses_identity_gets_gzip_or_is_told_so)
{
    struct lists *l = *state;

    open_lists(l);
    assert_int_equal(http_ask(&l->http, "GET", lists_path(l, 1),
                              "Accept-Encoding: gzip, identity;q=0", NULL),
                     200);
    assert_header(&l->http, "Content-Encoding", "gzip");
    assert_int_equal(http_ask(&l->http, "GET", LATEST,
                              "Accept-Encoding: gzip, identity;q=0", NULL),
                     406);
    assert_header(&l->http, "Content-Type", "application/problem+json");
    assert_int_equal(http_ask(&l->http, "GET", lists_path(l, 1),
                              "Accept-Encoding: gzip;q=0.2, identity", NULL),
                     200);
    assert_header(&l->http, "Content-Encoding", NULL);
}

/* By raw bytes: a 304 ends with its headers, and the connection goes on. */
TEST(a_connection_goes_on_after_304)
{
    struct lists *l = *state;
    struct wire_answer a;
    struct wire *w;

    open_lists(l);
    w = wire_connect("127.0.0.1", l->broker.port);
    assert_non_null(w);
    for (int i = 0; i < 3; i++)
        assert_true(wire_send_format(
            w, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nIf-None-Match: *\r\n\r\n",
            lists_path(l, 1)));
    for (int i = 0; i < 3; i++) {
        char value[64];

        assert_true(wire_answer(w, &a, false));
        assert_int_equal(a.status, 304);
        assert_false(wire_header(&a, "Content-Length", value, sizeof(value)));
        assert_true(wire_header(&a, "ETag", value, sizeof(value)));
    }
    assert_true(wire_request(w, "GET", LATEST, NULL, NULL, &a));
    assert_int_equal(a.status, 200);
    wire_close(w);
}

/* curl, as a peer that is not ours */

/* Runs curl; what it says of the answer is in c->out_text. */
static void
curl(struct command *c, const char *const *more, const char *url)
{
    const char *argv[16] = {"/usr/bin/curl",
                            "-sS",
                            "--noproxy",
                            "*",
                            "-w",
                            "%{http_code} %{size_download}"};
    size_t n = 6;

    while (*more)
        argv[n++] = *more++;
    argv[n++] = url;
    argv[n] = NULL;
    command_start(c, argv);
    command_give(c, "");
    if (command_end(c) != 0)
        fail_msg("curl: %s", c->err_text);
}

static void
assert_file_is(const char *path, const struct buf *bytes)
{
    struct stat st;
    FILE *file = fopen(path, "rb");
    char *text = malloc(bytes->size + 1);

    assert_non_null(file);
    assert_non_null(text);
    assert_int_equal(fstat(fileno(file), &st), 0);
    assert_int_equal(st.st_size, bytes->size);
    assert_int_equal(fread(text, 1, bytes->size, file), bytes->size);
    assert_memory_equal(text, bytes->data, bytes->size);
    fclose(file);
    free(text);
}

/* A built list is dated by a second that is over: two lists of one second would
 * share it, and a condition on it would be of either. */
TEST(a_built_list_has_no_date_until_its_second_is_over)
{
    static const char path[] = "/sets/" LISTS_SET "/resourcelist.xml";
    struct patience p = {.with = "Last-Modified"};
    struct lists *l = *state;
    const char *modified;
    time_t seconds;

    LISTS_OPEN(l, "--resource-list-keep", "none");
    source_post(&l->http, LISTS_SET, 1, 3, 0);
    assert_int_equal(build(&l->http, "/sets/" LISTS_SET "/resourcelist"), 200);
    while (http_get(&l->http, path) == 200 &&
           !http_header(&l->http, "Last-Modified"))
        patience_step(&p);
    modified = http_header(&l->http, "Last-Modified");
    assert_non_null(modified);
    seconds = curl_getdate(modified, NULL);
    assert_true(seconds <= curl_getdate(http_header(&l->http, "Date"), NULL));
}

TEST(curl_gets_a_document_once)
{
    struct lists *l = *state;
    char url[300], to[300], tag[300];
    const char *get[] = {"--compressed",   "-o", to,  "--etag-save", tag,
                         "--etag-compare", tag,  NULL};
    const char *dated[] = {"-R", "-o", to, "-z", to, NULL};
    struct command *c = calloc(1, sizeof(*c));
    struct buf plain;

    assert_non_null(c);
    LISTS_OPEN(l, "--rotate-entries", "1000");
    source_post(&l->http, LISTS_SET, 1, 1000, 0);
    lists_await_gzip(l, 1);
    plain = lists_copy(l, 1);
    snprintf(url, sizeof(url), "%s%s", l->broker.url, lists_path(l, 1));
    snprintf(to, sizeof(to), "%s/copy", l->broker.dir.path);
    snprintf(tag, sizeof(tag), "%s/tag", l->broker.dir.path);

    curl(c, get, url);
    assert_memory_equal(c->out_text, "200 ", 4);
    assert_true(strtoul(c->out_text + 4, NULL, 10) < plain.size / 3);
    assert_file_is(to, &plain);
    curl(c, get, url);
    assert_string_equal(c->out_text, "304 0");

    assert_int_equal(remove(to), 0);
    curl(c, dated, url);
    assert_memory_equal(c->out_text, "200 ", 4);
    assert_file_is(to, &plain);
    curl(c, dated, url);
    assert_string_equal(c->out_text, "304 0");
    assert_file_is(to, &plain);
    buf_fini(&plain);
    free(c);
}
