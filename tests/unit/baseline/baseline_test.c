/*
 * baseline_test.c - all resources of a source, by its lists.
 */
#include "client/baseline/baseline.h"

#include "tests/test.h"
#include "tests/unit/baseline/baseline_stage.h"

FIXTURE(set_up, tear_down);

/* */
TEST(a_list_is_told_and_stands_for_its_at)
{
    struct fixture *f = *state;

    site_putf(f->site, "/list", NULL,
              OPEN LIST "<url><loc>http://e.org/aaa</loc></url>"
                        "<url><loc>http://e.org/bbb</loc>"
                        "<rs:md change=\"deleted\"/></url>"
                        "<url><loc>http://e.org/ccc</loc></url></urlset>");
    run(f, "/list", NULL);
    assert_baseline(f, "http://e.org/aaa;http://e.org/ccc;",
                    "@2026-01-02T00:00:00.000000Z+0");

    site_gzip(f->site, "/list", true);
    run(f, "/list", NULL);
    assert_baseline(f, "http://e.org/aaa;http://e.org/ccc;",
                    "@2026-01-02T00:00:00.000000Z+0");
}

/* the oldest time of an index and its parts. */
TEST(an_index_is_read_part_by_part)
{
    struct fixture *f = *state;

    site_putf(f->site, "/index", NULL,
              INDEX "<rs:md capability=\"resourcelist\" "
                    "at=\"2026-01-05T00:00:00Z\"/>"
                    "<sitemap><loc>%s/1</loc></sitemap>"
                    "<sitemap><loc>%s/2</loc></sitemap>"
                    "<sitemap><loc>%s/1</loc></sitemap></sitemapindex>",
              site_url(f->site), site_url(f->site), site_url(f->site));
    site_putf(f->site, "/1", NULL,
              OPEN LIST "<url><loc>http://e.org/aaa</loc></url></urlset>");
    site_putf(f->site, "/2", NULL,
              OPEN "<url><loc>http://e.org/bbb</loc></url></urlset>");
    run(f, "/index", NULL);
    assert_baseline(f, "http://e.org/aaa;http://e.org/bbb;",
                    "@2026-01-02T00:00:00.000000Z+0");
    assert_int_equal(site_count(f->site, "/1"), 2); /* read, and looked at */
    assert_string_equal(text_of(&f->notes), "");

    /* The same, served as a list. */
    site_putf(f->site, "/index", NULL,
              OPEN LIST "<url><loc>%s/1</loc><rs:md "
                        "capability=\"resourcelist\"/></url></urlset>",
              site_url(f->site));
    run(f, "/index", NULL);
    assert_baseline(f, "http://e.org/aaa;", "@2026-01-02T00:00:00.000000Z+0");
}

/* Pages are linked in the document or in the header; a circle has an end. */
TEST(pages_are_followed_by_next)
{
    struct fixture *f = *state;
    char link[200];

    site_putf(f->site, "/1", NULL,
              OPEN "<rs:ln rel=\"next\" href=\"%s/2\"/>" LIST
                   "<url><loc>http://e.org/aaa</loc></url></urlset>",
              site_url(f->site));
    site_putf(f->site, "/2", NULL,
              OPEN LIST "<url><loc>http://e.org/bbb</loc></url></urlset>");
    site_headers(f->site, "/2", "Link: </3>; rel=\"next\"");
    site_putf(f->site, "/3", NULL,
              OPEN LIST "<url><loc>http://e.org/ccc</loc></url></urlset>");
    snprintf(link, sizeof(link), "Link: <%s/1>; rel=next", site_url(f->site));
    site_headers(f->site, "/3", link);
    run(f, "/1", NULL);
    assert_baseline(f, "http://e.org/aaa;http://e.org/bbb;http://e.org/ccc;",
                    "@2026-01-02T00:00:00.000000Z+0");
    assert_non_null(strstr(text_of(&f->notes), "which was read before"));

    site_headers(f->site, "/3", NULL);
    site_headers(f->site, "/1", "Link: </2>; rel=\"next\""); /* told twice */
    run(f, "/1", NULL);
    assert_string_equal(text_of(&f->notes), "");
}

/* Serves the resources from f->window to 8, in pages of three. */
static void
put_pages(struct fixture *f)
{
    for (unsigned page = 0; page < 3; page++) {
        char path[8];
        char next[200] = "";
        struct buf rows;

        buf_init(&rows, 4096);
        for (unsigned n = f->window + 3 * page;
             n < f->window + 3 * page + 3 && n <= 8; n++)
            buf_add_format(&rows, "<url><loc>http://e.org/%u</loc></url>", n);
        buf_add(&rows, "", 1);
        if (page < 2)
            snprintf(next, sizeof(next), "<rs:ln rel=\"next\" href=\"%s/%u\"/>",
                     site_url(f->site), page + 1);
        snprintf(path, sizeof(path), "/%u", page);
        site_putf(f->site, path, NULL, OPEN "%s" LIST "%s</urlset>", next,
                  rows.data);
        buf_fini(&rows);
    }
}

/* Resources vanish when the second page has come, and others move forward. */
static void
shift_once(struct fixture *f)
{
    if (f->n == 4) {
        f->window = 2;
        put_pages(f);
    }
}

static void
shift_always(struct fixture *f)
{
    if (f->n % 9 == 4) {
        f->window = !f->window;
        put_pages(f);
    }
}

/* a list that changes while it is read is read again. */
TEST(a_list_that_changes_while_it_is_read_is_read_again)
{
    struct fixture *f = *state;

    put_pages(f);
    f->on_nth = shift_once;
    run(f, "/0", NULL);
    assert_baseline(f,
                    "http://e.org/2;http://e.org/3;http://e.org/4;"
                    "http://e.org/5;http://e.org/6;http://e.org/7;"
                    "http://e.org/8;",
                    "@2026-01-02T00:00:00.000000Z+0");
    assert_non_null(
        strstr(text_of(&f->notes), "/0 has changed while the list was read"));
}

/* three times at most; then the caller is told that nobody knows. */
TEST(a_list_that_never_stands_still_is_doubtful)
{
    struct fixture *f = *state;

    put_pages(f);
    f->on_nth = shift_always;
    run(f, "/0", NULL);
    assert_int_equal(f->why.rc, STATUS_OK);
    assert_non_null(strstr(text_of(&f->notes),
                           "/0 has changed each of the 3 times that it was "
                           "read: resources may be missing"));
}

/* A page of another time, with the same rows, is the same. */
static void
rewrite_time(struct fixture *f)
{
    site_putf(f->site, "/1", NULL,
              OPEN "<rs:md capability=\"resourcelist\" "
                   "at=\"2026-01-09T00:00:%02uZ\"/>"
                   "<url><loc>http://e.org/bbb</loc></url></urlset>",
              f->n);
}

TEST(pages_that_tell_their_own_time_are_read_once)
{
    struct fixture *f = *state;

    site_putf(f->site, "/0", NULL,
              OPEN "<rs:ln rel=\"next\" href=\"%s/1\"/>" LIST
                   "<url><loc>http://e.org/aaa</loc></url></urlset>",
              site_url(f->site));
    rewrite_time(f);
    f->on_nth = rewrite_time;
    run(f, "/0", NULL);
    assert_baseline(f, "http://e.org/aaa;http://e.org/bbb;",
                    "@2026-01-02T00:00:00.000000Z+0");
    assert_string_equal(text_of(&f->notes), "");
}

/* The page is away at the second look: the reading is not complete. */
static void
lose_page(struct fixture *f)
{
    if (f->n == 9)
        site_status(f->site, "/1", 404, NULL, 0);
}

TEST(a_page_that_is_gone_at_the_second_look_fails_the_reading)
{
    struct fixture *f = *state;

    put_pages(f);
    f->on_nth = lose_page;
    run(f, "/0", NULL);
    assert_fails(f, STATUS_REFUSED, "/1: 404");
}

TEST(what_cannot_be_a_baseline_is_refused)
{
    struct fixture *f = *state;

    run(f, NULL, NULL);
    assert_fails(f, STATUS_GONE, "neither a Resource List nor a Resource Dump");
    run(f, "/none", NULL);
    assert_fails(f, STATUS_REFUSED, "/none: 404");
    site_put(f->site, "/list", NULL, SLICE("<html><body>no</body></html>"));
    run(f, "/list", NULL);
    assert_fails(f, STATUS_MALFORMED, "/list cannot be read");
    site_putf(f->site, "/list", NULL,
              OPEN "<rs:md capability=\"changelist\" "
                   "from=\"2026-01-01T00:00:00Z\"/></urlset>");
    run(f, "/list", NULL);
    assert_fails(f, STATUS_MALFORMED, "it is neither a Resource List");
    site_putf(f->site, "/list", NULL, OPEN "<url><loc>http://e.org/aaa</loc>");
    run(f, "/list", NULL);
    assert_fails(f, STATUS_MALFORMED, "/list cannot be read");
}

/* A chain of indexes that lead to ever more indexes ends. */
TEST(an_index_without_end_is_refused)
{
    struct fixture *f = *state;
    char path[20];

    for (unsigned i = 0; i < 12; i++) {
        snprintf(path, sizeof(path), "/%u", i);
        site_putf(f->site, path, NULL,
                  INDEX "<sitemap><loc>%s/%u</loc></sitemap></sitemapindex>",
                  site_url(f->site), i + 1);
    }
    run(f, "/0", NULL);
    assert_fails(f, STATUS_MALFORMED,
                 "an index leads to an index, again and again");
}

/* An index that leads to itself is no empty list. */
TEST(an_index_that_leads_to_itself_is_refused)
{
    struct fixture *f = *state;

    site_putf(f->site, "/0", NULL,
              INDEX "<sitemap><loc>%s/1</loc></sitemap></sitemapindex>",
              site_url(f->site));
    site_putf(f->site, "/1", NULL,
              INDEX "<sitemap><loc>%s/0</loc></sitemap></sitemapindex>",
              site_url(f->site));
    run(f, "/0", NULL);
    assert_fails(f, STATUS_MALFORMED, "its index leads in a circle");
}

TEST(what_is_busy_is_asked_again)
{
    struct fixture *f = *state;

    site_putf(f->site, "/list", NULL,
              OPEN LIST "<url><loc>http://e.org/aaa</loc></url></urlset>");
    site_status(f->site, "/list", 503, NULL, 2);
    run(f, "/list", NULL);
    assert_baseline(f, "http://e.org/aaa;", "@2026-01-02T00:00:00.000000Z+0");
    assert_int_equal(site_count(f->site, "/list"), 3);

    /* After a break the baseline reports the list again from its beginning. */
    site_cut(f->site, "/list", 350);
    run(f, "/list", NULL);
    assert_int_equal(f->why.rc, STATUS_OK);
}

TEST(nobody_is_told_while_it_is_paused)
{
    struct fixture *f = *state;
    struct buf list;

    buf_init(&list, 1 << 20);
    buf_add_text(&list, OPEN LIST);
    for (unsigned i = 0; i < 50; i++)
        buf_add_format(&list, "<url><loc>http://e.org/%04u</loc></url>", i);
    buf_add_text(&list, "</urlset>");
    site_put(f->site, "/list", NULL, buf_slice(&list));
    buf_fini(&list);

    f->pauses = true;
    start(f, "/list", NULL);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(handle_loop_until(f->client->loop, &f->is_over),
                         STATUS_OK);
        assert_true(f->is_paused);
        for (unsigned j = 0; j < 5; j++)
            assert_int_equal(handle_loop_service(f->client->loop), STATUS_OK);
        f->is_paused = f->is_over = false;
        baseline_hold(f->baseline, false);
    }
    assert_int_equal(handle_loop_until(f->client->loop, &f->is_over),
                     STATUS_OK);
    assert_int_equal(f->n, 50);
    assert_int_equal(f->why.rc, STATUS_OK);
}

TEST(it_may_be_freed_from_a_callback_or_stopped_by_it)
{
    struct fixture *f = *state;

    site_putf(f->site, "/list", NULL,
              OPEN LIST "<url><loc>http://e.org/aaa</loc></url>"
                        "<url><loc>http://e.org/bbb</loc></url></urlset>");
    f->stops_at = 1;
    run(f, "/list", NULL);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(handle_loop_service(f->client->loop), STATUS_OK);
    assert_int_equal(f->n, 1);
    baseline_free(f->baseline);

    f->stops_at = 0;
    f->frees_at = 1;
    run(f, "/list", NULL);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(handle_loop_service(f->client->loop), STATUS_OK);
    assert_int_equal(f->n, 1);
}
