/*
 * downloads_test.c - resources become files, with the stated digests; their
 * duplicates; the queue.
 */
#include "client/downloads/downloads.h"

#include "tests/test.h"
#include "tests/unit/downloads/downloads_stage.h"

FIXTURE(set_up, tear_down);

/* the file has the stated length and digests. */
TEST(a_resource_comes_into_a_file)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");
    struct downloads_result *result;

    site_put(f->site, "/a", "text/plain", SLICE("hello"));
    want.length = 5;
    want.hash = SLICE(MD5 " " SHA256);
    result = run_one(f, want);

    assert_says(result, STATUS_OK, "");
    assert_int_equal(result->bytes, 5);
    assert_int_equal(result->n_attempts, 1);
    assert_file(f->dir.fd, "1", "hello");
    assert_no_file(f->dir.fd, "1.of");
    assert_int_equal(downloads_room(f->downloads), DOWNLOADS_ROOM);
    assert_int_equal(downloads_bytes(f->downloads), 5);
    assert_string_equal(site_header(f->site, "/a", 0, "Accept-Encoding"),
                        "identity");
}

TEST(an_empty_resource_is_a_file_as_well)
{
    struct fixture *f = *state;

    site_put(f->site, "/a", "text/plain", SLICE(""));
    assert_says(run_one(f, want_of(f, 1, "/a")), STATUS_OK, "");
    assert_file(f->dir.fd, "1", "");
}

/* if the entry states a coding, hash and length are those of the coded
 * octets: the download asks for that coding, and unpacks nothing. */
TEST(the_coding_of_the_entry_is_asked_for_and_kept)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");
    char head[3] = "";
    int fd;

    site_put(f->site, "/a", "text/plain", SLICE("hello"));
    site_gzip(f->site, "/a", true);
    want.encoding = SLICE("gzip");
    assert_says(run_one(f, want), STATUS_OK, "");

    assert_string_equal(site_header(f->site, "/a", 0, "Accept-Encoding"),
                        "gzip");
    fd = openat(f->dir.fd, "1", O_RDONLY);
    assert_int_equal(read(fd, head, 2), 2);
    close(fd);
    assert_string_equal(head, "\x1f\x8b");

    want.encoding = SLICE("gzip\r\nEvil: yes");
    assert_says(run_one(f, want), STATUS_OK, "");
    assert_null(site_header(f->site, "/a", 1, "Evil"));
}

/* A wrong file is requested once more, past caches; then the reason says how it
 * differs. */
TEST(a_wrong_digest_is_asked_for_again_past_caches)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");

    site_put(f->site, "/a", "text/plain", SLICE("hullo"));
    want.length = 5;
    want.hash = SLICE(MD5);
    assert_says(run_one(f, want), STATUS_MALFORMED,
                "md5 is 54bf43965e2bbaa20c22c22ca7b4e9c7, the source announced "
                "5d41402abc4b2a76b9719d911017c592");
    assert_int_equal(site_count(f->site, "/a"), 2);
    assert_null(site_header(f->site, "/a", 0, "Cache-Control"));
    assert_string_equal(site_header(f->site, "/a", 1, "Cache-Control"),
                        "no-cache");
    assert_no_file(f->dir.fd, "1");
}

/* a body longer than stated is not read to its end, if it has one. */
TEST(what_is_longer_than_told_is_stopped)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");

    site_put(f->site, "/a", "text/plain", SLICE("hello"));
    want.length = 4;
    assert_says(run_one(f, want), STATUS_MALFORMED,
                "has 5 bytes, the source announced 4");
    site_chunked(f->site, "/a", true);
    assert_says(run_one(f, want), STATUS_MALFORMED,
                "is longer than the 4 bytes that the source announced");
    want.length = 6;
    assert_says(run_one(f, want), STATUS_MALFORMED,
                "has 5 bytes, the source announced 6");

    begin(f, (struct downloads_limits){.max_bytes = 3});
    want.length = LENGTH_NONE;
    assert_says(run_one(f, want), STATUS_MALFORMED,
                "is longer than the 3 bytes that are allowed");
}

/* A refusal is not asked for twice in a run. */
TEST(what_is_refused_is_not_asked_for_again)
{
    struct fixture *f = *state;
    struct downloads_result *result;

    result = run_one(f, want_of(f, 1, "/none"));
    assert_says(result, STATUS_REFUSED, "the server answers 404");
    assert_int_equal(result->why.http_status, 404);
    assert_int_equal(site_count(f->site, "/none"), 1);
    site_status(f->site, "/gone", 410, NULL, 0);
    assert_says(run_one(f, want_of(f, 1, "/gone")), STATUS_GONE,
                "the server answers 410");
    assert_no_file(f->dir.fd, "1");
}

/* before loc where a digest guards them; by pri, lower first,
 * none last. */
TEST(duplicates_are_tried_by_pri)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/none");
    struct downloads_link links[] = {
        {.href = slice_of(site_link(f->site, "/second")),
         .pri = 20,
         .length = LENGTH_NONE},
        {.href = slice_of(site_link(f->site, "/last")), .length = LENGTH_NONE},
        {.href = SLICE("ftp://example.org/no"), .pri = 1},
        {.href = slice_of(site_link(f->site, "/first")),
         .pri = 10,
         .length = LENGTH_NONE},
    };
    struct downloads_result *result;

    site_put(f->site, "/first", NULL, SLICE("wrong"));
    site_put(f->site, "/last", NULL, SLICE("hello"));
    want.hash = SLICE(SHA256);
    want.duplicates = links;
    want.n_duplicates = 4;
    result = run_one(f, want);
    assert_says(result, STATUS_OK, "");
    assert_file(f->dir.fd, "1", "hello");
    assert_int_equal(site_count(f->site, "/none"), 0);
    assert_int_equal(site_count(f->site, "/first"), 2);
    assert_int_equal(site_count(f->site, "/second"), 1);
    assert_int_equal(site_count(f->site, "/last"), 1);

    site_delete(f->site, "/last");
    assert_says(run_one(f, want), STATUS_REFUSED,
                "the server answers 404; 3 duplicates of it failed as well, "
                "the last: the server answers 404");
}

/* nothing tells whether such a mirror sends the right bytes. */
TEST(a_duplicate_that_nothing_guards_comes_after_loc)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");
    struct downloads_link links[] = {
        {.href = slice_of(site_link(f->site, "/open")),
         .pri = 1,
         .length = LENGTH_NONE},
        {.href = slice_of(site_link(f->site, "/guarded")),
         .pri = 2,
         .length = 5},
    };

    site_put(f->site, "/a", NULL, SLICE("hello"));
    site_put(f->site, "/open", NULL, SLICE("hello"));
    want.duplicates = links;
    want.n_duplicates = 2;
    assert_says(run_one(f, want), STATUS_OK, "");
    assert_int_equal(site_count(f->site, "/guarded"), 1);
    assert_int_equal(site_count(f->site, "/a"), 1);
    assert_int_equal(site_count(f->site, "/open"), 0);
}

/* Attributes of the link do not override the entry. */
TEST(a_duplicate_must_be_what_the_entry_told)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/none");
    struct downloads_link link = {
        .href = slice_of(site_link(f->site, "/other")),
        .hash = SLICE("md5:5d41402abc4b2a76b9719d911017c592"),
        .length = 5,
    };

    site_put(f->site, "/other", NULL, SLICE("hello"));
    want.duplicates = &link;
    want.n_duplicates = 1;
    want.length = 6;
    assert_int_equal(run_one(f, want)->why.rc, STATUS_REFUSED);
    want.length = LENGTH_NONE;
    assert_int_equal(run_one(f, want)->why.rc, STATUS_OK);
    link.length = 4;
    assert_int_equal(run_one(f, want)->why.rc, STATUS_REFUSED);
}

TEST(redirects_are_followed_ten_times)
{
    struct fixture *f = *state;
    struct downloads_result *result;
    char path[20], line[60];

    site_put(f->site, "/r10", NULL, SLICE("hello"));
    for (unsigned i = 0; i < 10; i++) {
        snprintf(path, sizeof(path), "/r%u", i);
        snprintf(line, sizeof(line), "Location: /r%u", i + 1);
        site_status(f->site, path, 302, line, 0);
    }
    assert_says(run_one(f, want_of(f, 1, "/r0")), STATUS_OK, "");

    site_status(f->site, "/loop", 307, "Location: /loop", 0);
    result = run_one(f, want_of(f, 2, "/loop"));
    assert_says(result, STATUS_MALFORMED, "the redirects do not end (307)");
    assert_int_equal(site_count(f->site, "/loop"), 11);
}

TEST(a_directory_that_cannot_be_written_is_told)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");

    site_put(f->site, "/a", NULL, SLICE("x"));
    want.file = "no/such";
    assert_says(run_one(f, want), STATUS_IO,
                "cannot write no/such: No such file or directory");
}

TEST(what_is_no_url_is_told_and_its_duplicates_are_tried)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");
    struct downloads_link link = {.href = want.loc, .length = LENGTH_NONE};

    want.loc = SLICE("urn:nbn:de:101:1-201102033592");
    assert_says(run_one(f, want), STATUS_INVALID,
                "it has no URL of http or https");
    site_put(f->site, "/a", NULL, SLICE("x"));
    want.duplicates = &link;
    want.n_duplicates = 1;
    assert_says(run_one(f, want), STATUS_OK, "");
}

/* There is room for so many, and for one host only for a part of them. */
TEST(the_queue_has_an_end)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");
    unsigned n = 0;

    site_hold(f->site, NULL);
    while (!downloads_is_full_for(f->downloads, want.loc)) {
        add(f, want);
        n++;
    }
    assert_int_equal(n, DOWNLOADS_ROOM_HOST);
    assert_int_equal(downloads_room(f->downloads), DOWNLOADS_ROOM - n);
    assert_int_equal(downloads_add(f->downloads, &want), STATUS_UNREACHABLE);
    want.loc = SLICE("http://127.0.0.1:1/");
    assert_int_equal(downloads_add(f->downloads, &want), STATUS_OK);
    /* Wants that were never requested are freed with the queue. */
    downloads_free(f->downloads);
    f->downloads = NULL;
}

/* In any state, also from on_done. */
TEST(what_is_dropped_is_not_heard_of)
{
    struct fixture *f = *state;

    site_put(f->site, "/a", NULL, SLICE("x"));
    site_put(f->site, "/b", NULL, SLICE("x"));
    site_hold(f->site, "/b");
    add(f, want_of(f, 1, "/b"));
    while (site_count(f->site, "/b") < 1)
        assert_int_equal(handle_loop_service(f->client->loop), STATUS_OK);
    add(f, want_of(f, 2, "/a"));
    add(f, want_of(f, 3, "/a"));
    assert_true(downloads_drop(f->downloads, 3));
    assert_false(downloads_drop(f->downloads, 3));
    f->drops = 1;
    run_until(f, 1);
    assert_int_equal(f->results[0].id, 2);
    assert_int_equal(downloads_room(f->downloads), DOWNLOADS_ROOM);
    site_release(f->site, "/b");
}

static void
free_all(const struct downloads_result *result, void *user)
{
    struct fixture *f = user;

    (void)result;
    downloads_free(f->downloads);
    f->downloads = NULL;
    f->is_over = true;
}

TEST(it_may_be_freed_from_its_own_callback)
{
    struct fixture *f = *state;
    struct downloads_limits limits = {.per_host = 2};

    downloads_free(f->downloads);
    f->downloads =
        downloads_new(f->client, &limits, f->dir.fd, free_all, NULL, f);
    site_put(f->site, "/a", NULL, SLICE("x"));
    for (unsigned i = 0; i < 10; i++)
        add(f, want_of(f, i, "/a"));
    assert_int_equal(handle_loop_until(f->client->loop, &f->is_over),
                     STATUS_OK);
    assert_null(f->downloads);
}
