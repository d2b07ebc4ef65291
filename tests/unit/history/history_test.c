/*
 * history_test.c - the changes of several documents together: indexes,
 * archives, pages, dumps; and unavailable documents.
 */
#include "client/history/history.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "tests/test.h"
#include "tests/unit/history/history_stage.h"

FIXTURE(set_stage, clear_stage);

/* from the list in
 * which the place is. */
TEST(an_index_leads_to_the_lists_that_are_needed)
{
    struct stage *s = *state;

    offer_list(s, INDEX(FROM("01"), FOUR_LISTS));
    put_four_lists(s);

    tells(s, AT("01"), "a b c d e ", AT_N("08", "1"));
    tells(s, AT("06"), "d e ", AT_N("08", "1"));
    assert_int_equal(site_count(s->site, "/2.xml"), 1);
    tells(s, AT_N("03", "1"), "c d e ", NULL); /* "b" was reported */
    tells(s, AT("03"), "b c d e ", NULL);
    is_gone(s, "@2026-08-31T00:00:00Z");
}

TEST(an_index_may_say_little_and_be_in_disorder)
{
    struct stage *s = *state;

    put_four_lists(s);
    offer_list(s, INDEX("", PART("/1.xml", "") PART("/2.xml", "")
                                PART("/3.xml", "") PART("/4.xml", "")));
    tells(s, AT("04"), "c d e ", NULL);

    put(s, "/c.xml",
        INDEX("", PART_4 PART("/2.xml", FROM("03")) PART("/1.xml", FROM("01"))
                      PART("/3.xml", FROM("05"))));
    tells(s, AT("02"), "a b c d e ", NULL);
}

/*
 * archives, and their index, where the index does not reach back. */
TEST(archives_are_read_where_the_index_does_not_reach_back)
{
    struct stage *s = *state;

    put_four_lists(s);
    offer_list(
        s, INDEX(FROM("05"), LINK("archives", "/archives.xml") PART_3 PART_4));
    put(s, "/archives.xml", ARCHIVE_INDEX(NAMED("/a1.xml") NAMED("/a2.xml")));
    put(s, "/a1.xml", ARCHIVE(URL_1));
    put(s, "/a2.xml", ARCHIVE(URL_2 URL_3));

    tells(s, AT("02"), "a b c d e ", NULL);
    assert_int_equal(site_count(s->site, "/3.xml"), 1);

    /* Not where it does. */
    tells(s, AT("06"), "d e ", NULL);
    assert_int_equal(site_count(s->site, "/archives.xml"), 1);

    /* As the Capability List names it. */
    offer(s, &s->offered.change_list_archive, "/a2.xml");
    tells(s, AT("03"), "c d e ", NULL);
    assert_int_equal(site_count(s->site, "/archives.xml"), 1);

    site_delete(s->site, "/archives.xml");
    is_gone(s, AT("01"));
}

/* from a list by its links. */
TEST(a_list_leads_to_its_index_or_the_list_before)
{
    struct stage *s = *state;

    put_four_lists(s);
    put(s, "/3.xml",
        LIST(FROM("05") UNTIL("07"), LINK("prev", "/2.xml") CHANGE("d", "06")));
    put(s, "/4.xml",
        LIST(FROM("07"), LINK("prev", "/3.xml") CHANGE("e", "08")));
    offer(s, &s->offered.change_list, "/4.xml");
    tells(s, AT("04"), "c d e ", NULL);
    is_gone(s, AT("01"));

    put(s, "/index.xml", INDEX(FROM("01"), FOUR_LISTS));
    put(s, "/4.xml",
        LIST(FROM("07"), LINK("index", "/index.xml") CHANGE("e", "08")));
    tells(s, AT("01"), "a b c d e ", NULL);

    /* If the open list has an address of its own, too, its changes are reported
     * once. */
    put(s, "/now.xml",
        LIST(FROM("07"), LINK("index", "/index.xml") CHANGE("e", "08")));
    offer(s, &s->offered.change_list, "/now.xml");
    tells(s, AT("01"), "a b c d e ", AT_N("08", "1"));
}

/* Pages by a link of the root, or of the header; the newest may be the first.
 */
TEST(pages_make_one_list)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"), LINK("next", "?page=2") CHANGE("a", "02")));
    put(s, "/c.xml?page=2", LIST(FROM("01"), CHANGE("b", "03")));
    site_headers(s->site, "/c.xml?page=2", "Link: </c3.xml>; rel=\"next\"");
    put(s, "/c3.xml", LIST("", LINK("next", "/c.xml") CHANGE("c", "04")));
    tells(s, AT("01"), "a b c ", AT_N("04", "1"));
    tells_again(s, AT("02"), "a b c ", NULL); /* no ETag covers all pages */

    /* A change that moved from one page to the next is reported once. */
    put(s, "/c.xml",
        LIST("", LINK("next", "/c2.xml") CHANGE("d", "05") CHANGE("c", "04")));
    put(s, "/c2.xml", LIST("", CHANGE("c", "04") CHANGE("a", "02")));
    tells(s, AT("02"), "a c d ", AT_N("05", "1"));
}

/* a list that has not changed costs a 304, also behind an index. */
TEST(a_list_that_has_not_changed_is_not_read_again)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"), CHANGE("a", "02")));
    tells(s, AT("01"), "a ", AT_N("02", "1"));
    tells_again(s, AT_N("02", "1"), "", AT_N("02", "1"));
    assert_int_equal(site_answered(s->site, "/c.xml", 1), 304);

    put(s, "/c.xml", LIST(FROM("01"), CHANGE("a", "02") CHANGE("b", "03")));
    tells_again(s, AT_N("02", "1"), "b ", AT_N("03", "1"));

    offer(s, &s->offered.change_list, "/i.xml");
    put_four_lists(s);
    put(s, "/i.xml", INDEX(FROM("01"), FOUR_LISTS));
    tells(s, AT("07"), "e ", AT_N("08", "1"));
    tells_again(s, AT_N("08", "1"), "", AT_N("08", "1"));
    assert_int_equal(site_answered(s->site, "/4.xml", 1), 304);
    put(s, "/4.xml", LIST(FROM("07"), CHANGE("e", "08") CHANGE("f", "09")));
    tells_again(s, AT_N("08", "1"), "f ", AT_N("09", "1"));
    assert_int_equal(site_count(s->site, "/4.xml"), 3);
}

/* A caller that keeps no ETag gets each list whole. */
TEST(a_list_is_read_again_where_no_etag_is_kept)
{
    struct stage *s = *state;

    s->keeps_no_etag = true;
    offer_list(s, INDEX(FROM("01"), FOUR_LISTS));
    put_four_lists(s);
    for (unsigned i = 0; i < 2; i++) {
        tells_again(s, AT_N("08", "1"), "", AT_N("08", "1"));
        assert_int_equal(site_answered(s->site, "/c.xml", i), 200);
        assert_int_equal(site_answered(s->site, "/4.xml", i), 200);
    }
}

/* the manifests of a
 * dump have the changes of lists; a package whose manifest is beside it is not
 * fetched. */
TEST(change_dumps_stand_for_change_lists)
{
    struct stage *s = *state;
    struct tempdir dir;
    struct zips z;
    char scratch[PATH_MAX];
    int scratch_fd;

    offer(s, &s->offered.change_dump, "/dumps.xml");
    put(s, "/dumps.xml",
        "<sitemapindex" NS "<rs:md capability=\"changedump\"/>"
        "<sitemap><loc>/d.xml</loc></sitemap></sitemapindex>");
    put(s, "/d.xml",
        "<urlset" NS "<rs:md capability=\"changedump\" " FROM(
            "01") "/>"
                  "<url><loc>/zips/1.zip</loc><rs:md " FROM("01")
                      UNTIL("03") "/>" LINK(
                          "contents",
                          "/1.xml") "</url>"
                                    "<url><loc>/zips/2.zip</loc><rs:md " FROM(
                                        "03")
                                        UNTIL("05") "/></url>"
                                                    "<url><loc>/zips/3.zip</"
                                                    "loc></url></urlset>");
    put_four_lists(s);
    tempdir_open(&dir);
    zips_begin(&z, dir.fd, "2.zip");
    zips_add(&z, "1", SLICE("one"));
    zips_add(&z, "manifest.xml",
             SLICE(LIST(FROM("03") UNTIL("05"), CHANGE("c", "04"))));
    zips_end(&z);
    zips_begin(&z, dir.fd, "3.zip");
    zips_add(&z, "manifest.xml", SLICE(LIST(FROM("05"), CHANGE("d", "06"))));
    zips_end(&z);
    site_dir(s->site, "/zips/", dir.path);

    snprintf(scratch, sizeof(scratch), "%s/scratch", dir.path);
    s->scratch = scratch; /* made when there is something for it */
    tells(s, AT("06"), "d ", AT_N("06", "1"));
    scratch_fd = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(scratch_fd >= 0);
    assert_no_file(scratch_fd, "history.zip");
    close(scratch_fd);
    s->scratch = dir.path;
    tells(s, AT("01"), "a b c d ", AT_N("06", "1"));
    assert_int_equal(site_count(s->site, "/zips/1.zip"), 0);
    tells(s, AT("04"), "c d ", AT_N("06", "1"));
    tells(s, AT_N("06", "1"), "", NULL);
    is_gone(s, "@2026-08-31T00:00:00Z");
    assert_no_file(dir.fd, "history.zip");

    /* Where the lists do not reach back. */
    offer(s, &s->offered.change_list, "/4.xml");
    put(s, "/4.xml", LIST(FROM("05"), CHANGE("d", "06") CHANGE("e", "08")));
    tells(s, AT("02"), "a b c d e ", AT_N("08", "1"));

    s->scratch = NULL; /* a temporary one */
    tells(s, AT("02"), "a b c d e ", AT_N("08", "1"));
    s->notes.etag[0] = '\0';
    site_delete(s->site, "/zips/2.zip");
    s->scratch = dir.path;
    assert_int_equal(read_after(s, AT("02")), STATUS_GONE);
    put(s, "/zips/2.zip", "PK, but no ZIP");
    assert_int_equal(read_after(s, AT("02")), STATUS_MALFORMED);
    assert_non_null(strstr(s->why.text, "/zips/2.zip"));
    tempdir_close(&dir);
}

/* Unavailable documents */

TEST(failures_are_told)
{
    struct stage *s = *state;

    is_gone(s, AT("01")); /* nothing is offered */

    offer(s, &s->offered.change_list, "/c.xml");
    assert_int_equal(read_after(s, AT("01")), STATUS_REFUSED);
    assert_int_equal(s->why.http_status, 404);
    site_status(s->site, "/c.xml", 503, "Retry-After: 9", 1);
    assert_int_equal(read_after(s, AT("01")), STATUS_UNREACHABLE);
    assert_int_equal(s->why.retry_after_s, 9);

    put(s, "/c.xml", "<html>");
    assert_int_equal(read_after(s, AT("01")), STATUS_MALFORMED);

    /* A list of the index that is no longer there. */
    put(s, "/c.xml", INDEX(FROM("01"), FOUR_LISTS));
    put_four_lists(s);
    site_status(s->site, "/2.xml", 410, NULL, 0);
    assert_int_equal(read_after(s, AT("01")), STATUS_GONE);
    assert_string_equal(s->names, "a b ");
    assert_string_equal(s->upto, AT_N("03", "1"));

    put(s, "/1.xml", INDEX("", PART("/x.xml", "")));
    assert_int_equal(read_after(s, AT("01")), STATUS_MALFORMED);
    assert_non_null(strstr(s->why.text, "index within an index"));
}

/* The caller's wishes */

TEST(nothing_is_told_while_it_is_paused)
{
    struct stage *s = *state;
    struct buf list;

    buf_init(&list, SIZE_MAX);
    buf_add_text(&list, "<urlset" NS
                        "<rs:md capability=\"changelist\" " FROM("01") "/>");
    for (size_t i = 0; i < 5000; i++)
        buf_add_format(&list, CHANGE("%zu", "02"), i);
    buf_add_text(&list, "</urlset>");
    site_put(s->site, "/c.xml", NULL, buf_slice(&list));
    buf_fini(&list);
    offer(s, &s->offered.change_list, "/c.xml");

    s->pauses_at = 2;
    assert_int_equal(read_after(s, AT("01")), STATUS_STOPPED);
    assert_string_equal(s->names, "0 1 ");
    s->pauses_at = 4000;
    history_hold(s->history, false);
    go_on(s);
    s->pauses_at = 0;
    history_hold(s->history, false);
    go_on(s);
    assert_int_equal(s->why.rc, STATUS_OK);
    assert_int_equal(s->n_told, 5000);
    assert_string_equal(s->upto, AT_N("02", "5000"));
}

TEST(it_may_be_freed_by_whom_it_tells)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"), CHANGE("a", "02") CHANGE("b", "03")));
    s->frees_at = 1;
    assert_int_equal(read_after(s, AT("01")), STATUS_STOPPED);
    assert_string_equal(s->names, "a ");
}
