/*
 * downloads_resumed_test.c - broken downloads are resumed.
 */
#include "client/downloads/downloads.h"
#include "tests/test.h"
#include "tests/unit/downloads/downloads_stage.h"

FIXTURE(set_up, tear_down);

/* A broken download is resumed in the same run. */
TEST(a_download_that_breaks_is_resumed)
{
    struct fixture *f = *state;
    size_t size = 3 * 1024 * 1024;
    char *bytes = large_body(size);
    struct want want = want_of(f, 1, "/a");
    struct downloads_result *result;

    site_put(f->site, "/a", NULL, (struct slice){bytes, size});
    site_cut(f->site, "/a", 2 * 1024 * 1024);
    want.length = size;
    want.hash = SLICE(LARGE_MD5);
    result = run_one(f, want);

    assert_says(result, STATUS_OK, "");
    assert_int_equal(result->bytes, size);
    assert_int_equal(result->n_attempts, 2);
    assert_int_equal(site_count(f->site, "/a"), 2);
    assert_non_null(site_header(f->site, "/a", 1, "Range"));
    assert_non_null(site_header(f->site, "/a", 1, "If-Range"));
    assert_int_equal(site_answered(f->site, "/a", 1), 206);
    assert_int_equal(downloads_bytes(f->downloads), size);

    /* The file is complete, but not yet at its place: a later download sends no
     * request. */
    begin(f, (struct downloads_limits){0});
    assert_says(run_one(f, want), STATUS_OK, "");
    assert_int_equal(site_count(f->site, "/a"), 2);
    download_forget(f->dir.fd, "1");
    assert_no_file(f->dir.fd, "1.of");
    free(bytes);
}

/* Breaks the download of /a in the middle, and forgets it as a killed process
 * would. */
static void
break_off(struct fixture *f, struct want want)
{
    site_cuts(f->site, "/a", 2 * 1024 * 1024, 1);
    begin(f, (struct downloads_limits){.pause_ms = 60000});
    add(f, want);
    while (downloads_bytes(f->downloads) < 1024 * 1024)
        assert_int_equal(handle_loop_service(f->client->loop), STATUS_OK);
    begin(f, (struct downloads_limits){0});
}

/* ... and by the next process. A server without ranges, or with another file by
 * now, sends all of it. */
TEST(another_process_goes_on_where_it_broke)
{
    struct fixture *f = *state;
    size_t size = 3 * 1024 * 1024;
    char *bytes = large_body(size);
    struct want want = want_of(f, 1, "/a");
    unsigned n;

    site_put(f->site, "/a", NULL, (struct slice){bytes, size});
    want.length = size;
    want.hash = SLICE(LARGE_MD5);

    break_off(f, want);
    n = site_count(f->site, "/a");
    assert_says(run_one(f, want), STATUS_OK, "");
    assert_non_null(site_header(f->site, "/a", n, "Range"));
    assert_int_equal(site_answered(f->site, "/a", n), 206);
    download_forget(f->dir.fd, "1");

    /* No ranges here. */
    break_off(f, want);
    site_ranges(f->site, "/a", false);
    n = site_count(f->site, "/a");
    assert_says(run_one(f, want), STATUS_OK, "");
    assert_non_null(site_header(f->site, "/a", n, "Range"));
    assert_int_equal(site_answered(f->site, "/a", n), 200);
    site_ranges(f->site, "/a", true);
    download_forget(f->dir.fd, "1");

    /* Another wish: from the first byte. */
    break_off(f, want);
    n = site_count(f->site, "/a");
    want.hash = SLICE(LARGE_MD5 " sha-1:"
                                "0000000000000000000000000000000000000000");
    assert_int_equal(run_one(f, want)->why.rc, STATUS_MALFORMED);
    assert_null(site_header(f->site, "/a", n, "Range"));
    assert_no_file(f->dir.fd, "1.of");
    free(bytes);
}

/* A damaged part on the disk is noticed, and the whole file is fetched
 * again. */
TEST(a_damaged_part_is_fetched_anew)
{
    struct fixture *f = *state;
    size_t size = 3 * 1024 * 1024;
    char *bytes = large_body(size);
    struct want want = want_of(f, 1, "/a");
    struct downloads_result *result;
    int fd;

    site_put(f->site, "/a", NULL, (struct slice){bytes, size});
    want.length = size;
    want.hash = SLICE(LARGE_MD5);
    break_off(f, want);
    fd = openat(f->dir.fd, "1", O_WRONLY);
    assert_int_equal(pwrite(fd, "damage", 6, 1000), 6);
    close(fd);
    result = run_one(f, want);
    assert_says(result, STATUS_OK, "");
    assert_int_equal(result->n_attempts, 2);
    free(bytes);
}
