/*
 * history_retry_test.c - repeated requests: for documents that are unavailable
 * for now, and for lists that moved on.
 */
#include "client/history/history.h"
#include "client/lib/pause.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/history/history_stage.h"

static unsigned
count(struct stage *s, const char *path)
{
    return site_count(s->site, path);
}

static void
put_index(struct stage *s)
{
    offer_list(s, INDEX(FROM("01"), FOUR_LISTS));
    put_four_lists(s);
    s->waits = true;
}

FIXTURE(set_stage, clear_stage);

/* after a failure the history asks only for the failed document
 * again. */
TEST(what_was_found_is_kept_while_a_document_is_away)
{
    static const char *const paths[] = {"/c.xml", "/1.xml", "/2.xml", "/4.xml"};
    struct stage *s = *state;

    put_index(s);
    for (size_t i = 0; i < 4; i++) {
        unsigned before = count(s, NULL);

        s->n_waits = 0;
        site_status(s->site, paths[i], 503, NULL, 2);
        tells(s, AT("01"), "a b c d e ", AT_N("08", "1"));
        assert_int_equal(s->n_waits, 2);
        assert_int_equal(count(s, NULL) - before, 5 + 2);
    }
}

TEST(documents_that_are_looked_at_are_asked_for_again)
{
    struct stage *s = *state;

    put_index(s);
    put(s, "/c.xml",
        INDEX("", PART("/1.xml", "") PART("/2.xml", "") PART("/3.xml", "")
                      PART("/4.xml", "")));
    site_status(s->site, "/2.xml", 429, NULL, 1);
    tells(s, AT("04"), "c d e ", NULL);
    assert_int_equal(s->n_waits, 1);
    assert_int_equal(count(s, "/c.xml"), 1);
    assert_int_equal(count(s, "/2.xml"), 3); /* looked at, and read */
    assert_int_equal(count(s, "/3.xml"), 2);
}

/* An archive that breaks in its middle has named nothing twice. */
TEST(an_archive_that_breaks_is_read_anew)
{
    struct stage *s = *state;

    put_index(s);
    put(s, "/c.xml",
        INDEX(FROM("05"), LINK("archives", "/a.xml") PART_3 PART_4));
    put(s, "/a.xml", ARCHIVE(URL_1 URL_2));
    site_cuts(s->site, "/a.xml", 330, 2);
    tells(s, AT("02"), "a b c d e ", AT_N("08", "1"));
    assert_int_equal(s->n_waits, 2);
    assert_int_equal(count(s, "/c.xml"), 1);
}

static void
mend_archive(struct stage *s)
{
    put(s, "/a.xml", ARCHIVE(URL_1 URL_2));
}

/* The complete archive may lack a list that its broken version named. */
TEST(an_archive_that_broke_is_forgotten)
{
    static const char broken[] =
        ARCHIVE(AS_URL("/away.xml", FROM("02") UNTIL("03")) URL_2);
    struct stage *s = *state;

    put_index(s);
    put(s, "/c.xml",
        INDEX(FROM("05"), LINK("archives", "/a.xml") PART_3 PART_4));
    put(s, "/a.xml", broken);
    site_cut(s->site, "/a.xml", sizeof(broken) - 10);
    s->move = mend_archive;
    s->moves_wait_at = 1;
    tells(s, AT("02"), "a b c d e ", AT_N("08", "1"));
    assert_int_equal(s->n_waits, 1);
    assert_int_equal(count(s, "/away.xml"), 0);
}

/* A list in pages goes on with the page that broke. */
TEST(a_page_that_breaks_is_told_once)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"), LINK("next", "/p2.xml") CHANGE("a", "02")
                                       CHANGE("b", "02")));
    put(s, "/p2.xml",
        LIST(FROM("01"),
             LINK("next", "/p3.xml") CHANGE("c", "02") CHANGE("d", "03")));
    put(s, "/p3.xml", LIST(FROM("01"), CHANGE("e", "04")));
    s->waits = true;
    site_cuts(s->site, "/p2.xml", 400, 3);
    tells(s, AT("01"), "a b c d e ", AT_N("04", "1"));
    assert_int_equal(s->n_waits, 3);
    assert_int_equal(count(s, "/c.xml"), 1);
    assert_int_equal(count(s, "/p2.xml"), 4);
    tells_on(s, "");
}

/* The history reports no entry of a list that breaks off before the list is
 * complete. */
TEST(a_list_that_breaks_is_told_once)
{
    struct stage *s = *state;

    offer_list(s, LIST(FROM("01"), CHANGE("a", "02") CHANGE("b", "03")));
    s->waits = true;
    site_cuts(s->site, "/c.xml", 350, 2);
    tells(s, AT("01"), "a b ", AT_N("03", "1"));
    assert_int_equal(s->n_waits, 2);
}

/* Retry-After is heeded; the pauses grow, and are short again once something
 * came. */
TEST(the_server_says_how_long)
{
    struct stage *s = *state;

    put_index(s);
    site_status(s->site, "/2.xml", 429, "Retry-After: 1", 1);
    tells(s, AT("01"), "a b c d e ", NULL);
    assert_true(s->waited_ms >= 1000);
    assert_int_equal(s->why.rc, STATUS_OK);

    s->n_waits = 0;
    site_status(s->site, "/1.xml", 503, NULL, 3);
    site_status(s->site, "/2.xml", 503, NULL, 1);
    tells(s, AT("01"), "a b c d e ", NULL);
    assert_int_equal(s->n_waits, 4);
    assert_true(s->waited_ms < 2 * PAUSE_FIRST);
}

/* A package of a Change Dump, too. */
TEST(a_package_that_is_away_is_fetched_again)
{
    struct stage *s = *state;
    struct tempdir dir;
    struct zips z;

    tempdir_open(&dir);
    zips_begin(&z, dir.fd, "1.zip");
    zips_add(&z, "manifest.xml", SLICE(LIST(FROM("01"), CHANGE("a", "02"))));
    zips_end(&z);
    site_dir(s->site, "/zips/", dir.path);
    offer(s, &s->offered.change_dump, "/d.xml");
    put(s, "/d.xml",
        "<urlset" NS "<rs:md capability=\"changedump\" " FROM(
            "01") "/>"
                  "<url><loc>/zips/1.zip</loc><rs:md " FROM(
                      "01") "/></url></urlset>");
    s->scratch = dir.path;
    s->waits = true;
    site_status(s->site, "/zips/1.zip", 503, NULL, 1);
    site_status(s->site, "/d.xml", 503, NULL, 1);
    tells(s, AT("01"), "a ", AT_N("02", "1"));
    assert_int_equal(s->n_waits, 2);
    tempdir_close(&dir);
}

/* The history does not ask again for a refused document. */
TEST(what_is_refused_is_not_asked_for_again)
{
    struct stage *s = *state;

    put_index(s);
    site_status(s->site, "/c.xml", 403, NULL, 0);
    assert_int_equal(read_after(s, AT("01")), STATUS_REFUSED);
    assert_int_equal(s->n_waits, 0);
    assert_int_equal(count(s, "/c.xml"), 1);
}

TEST(it_may_be_freed_or_paused_while_it_waits)
{
    struct stage *s = *state;

    put_index(s);
    site_status(s->site, "/2.xml", 503, NULL, 0);
    s->gives_up_at = 2;
    assert_int_equal(read_after(s, AT("01")), STATUS_UNREACHABLE);
    assert_string_equal(s->names, "a b ");

    s->gives_up_at = 0;
    s->n_waits = 0;
    s->pauses_wait_at = 1;
    site_status(s->site, "/2.xml", 503, NULL, 1);
    assert_int_equal(read_after(s, AT("01")), STATUS_UNREACHABLE);
    history_hold(s->history, false);
    go_on(s);
    assert_int_equal(s->why.rc, STATUS_OK);
    assert_string_equal(s->names, "a b c d e ");
    assert_int_equal(s->n_waits, 1);
}
