/*
 * duplicates_test.c - a duplicate is another address of a resource; its entry
 * cannot replace the digest of the resource.
 */
#include "tests/test.h"
#include "tests/unit/downloads/downloads_stage.h"

/* Of "other". */
#define OTHER_MD5 "md5:795f3202b17cb6bc3d4b771d8c6c9eaf"

FIXTURE(set_up, tear_down);

/* A duplicate's own attributes count only if the entry has none. */
TEST(a_duplicate_cannot_replace_what_the_entry_says)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");
    struct downloads_link link = {
        .href = slice_of(site_link(f->site, "/b")),
        .hash = SLICE(OTHER_MD5),
        .length = 5,
    };

    site_status(f->site, "/a", 404, NULL, 0);
    site_put(f->site, "/b", NULL, SLICE("other"));
    want.duplicates = &link;
    want.n_duplicates = 1;
    want.hash = SLICE(SHA256);
    assert_int_not_equal(run_one(f, want)->why.rc, STATUS_OK);
    assert_no_file(f->dir.fd, "1");

    want.id = 2;
    want.file = "2";
    want.hash = SLICE("");
    want.length = 6;
    assert_int_not_equal(run_one(f, want)->why.rc, STATUS_OK);
    assert_no_file(f->dir.fd, "2");
}

TEST(a_duplicate_says_what_the_entry_leaves_open)
{
    struct fixture *f = *state;
    struct want want = want_of(f, 1, "/a");
    struct downloads_link link = {
        .href = slice_of(site_link(f->site, "/b")),
        .hash = SLICE(OTHER_MD5),
        .length = LENGTH_NONE,
    };

    site_status(f->site, "/a", 404, NULL, 0);
    site_put(f->site, "/b", NULL, SLICE("other"));
    want.duplicates = &link;
    want.n_duplicates = 1;
    assert_says(run_one(f, want), STATUS_OK, "");
    assert_file(f->dir.fd, "1", "other");

    site_put(f->site, "/b", NULL, SLICE("hello"));
    want.id = 2;
    want.file = "2";
    assert_int_not_equal(run_one(f, want)->why.rc, STATUS_OK);
    assert_no_file(f->dir.fd, "2");
}
