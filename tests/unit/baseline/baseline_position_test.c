/*
 * baseline_position_test.c - the place in its history that a baseline stands
 * for.
 */
#include "client/baseline/baseline.h"
#include "tests/test.h"
#include "tests/unit/baseline/baseline_stage.h"

FIXTURE(set_up, tear_down);

TEST(a_list_of_tidings_stands_for_its_last_seq)
{
    struct fixture *f = *state;
    const char *part =
        OPEN "<rs:md capability=\"resourcelist\" at=\"2026-01-02T00:00:00Z\" "
             "td:epoch=\"0123456789abcdef\" td:last=\"%u\"/></urlset>";

    site_putf(f->site, "/list", NULL, part, 17);
    run(f, "/list", NULL);
    assert_baseline(f, "", "0123456789abcdef-17");

    /* Of several the oldest. */
    site_putf(f->site, "/index", NULL,
              INDEX "<sitemap><loc>%s/list</loc></sitemap>"
                    "<sitemap><loc>%s/old</loc></sitemap></sitemapindex>",
              site_url(f->site), site_url(f->site));
    site_putf(f->site, "/old", NULL, part, 12);
    run(f, "/index", NULL);
    assert_baseline(f, "", "0123456789abcdef-12");

    /* One part knows of no seq: then it is a time. */
    site_putf(f->site, "/old", NULL, OPEN LIST "</urlset>");
    run(f, "/index", NULL);
    assert_baseline(f, "", "@2026-01-02T00:00:00.000000Z+0");
}

/* Without `at`: the newest lastmod; without that the clock of the server. */
TEST(a_list_without_a_time_stands_for_what_is_surely_before_it)
{
    struct fixture *f = *state;

    site_putf(f->site, "/list", NULL,
              OPEN "<url><loc>http://e.org/aaa</loc>"
                   "<lastmod>2025-05-05</lastmod></url>"
                   "<url><loc>http://e.org/bbb</loc>"
                   "<lastmod>2025-05-04T10:00:00Z</lastmod></url></urlset>");
    run(f, "/list", NULL);
    assert_baseline(f, "http://e.org/aaa;http://e.org/bbb;",
                    "@2025-05-05T00:00:00.000000Z+0");

    site_putf(f->site, "/list", NULL,
              OPEN "<url><loc>http://e.org/aaa</loc></url></urlset>");
    site_headers(f->site, "/list", "Date: Sun, 06 Nov 1994 08:49:37 GMT");
    run(f, "/list", NULL);
    assert_baseline(f, "http://e.org/aaa;", "@1994-11-06T08:49:37.000000Z+0");
    assert_string_equal(f->guess, "");

    /* A lastmod yet to come is not believed. */
    site_putf(f->site, "/list", NULL,
              OPEN "<url><loc>http://e.org/aaa</loc>"
                   "<lastmod>2999-05-05</lastmod></url></urlset>");
    site_headers(f->site, "/list", "Date: Sun, 06 Nov 1994 08:49:37 GMT");
    run(f, "/list", NULL);
    assert_baseline(f, "http://e.org/aaa;", "@1994-11-06T08:49:37.000000Z+0");
}

/* A file that was written last night, and a resource that nobody touched for
 * long: the file's time is no proof, but likely. */
TEST(a_list_without_a_time_may_be_as_young_as_its_server_says)
{
    struct fixture *f = *state;

    site_putf(f->site, "/list", NULL,
              OPEN "<url><loc>http://e.org/aaa</loc>"
                   "<lastmod>1990-05-05</lastmod></url></urlset>");
    site_headers(f->site, "/list",
                 "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                 "Last-Modified: Sat, 05 Nov 1994 02:00:00 GMT");
    run(f, "/list", NULL);
    assert_baseline(f, "http://e.org/aaa;", "@1990-05-05T00:00:00.000000Z+0");
    assert_string_equal(f->guess, "@1994-11-05T02:00:00.000000Z+0");

    /* Without any lastmod there is no better time. */
    site_putf(f->site, "/list", NULL,
              OPEN "<url><loc>http://e.org/aaa</loc></url></urlset>");
    run(f, "/list", NULL);
    assert_baseline(f, "http://e.org/aaa;", "@1994-11-05T02:00:00.000000Z+0");
    assert_string_equal(f->guess, "");

    /* The oldest of all parts. */
    site_putf(f->site, "/index", NULL,
              INDEX "<sitemap><loc>/one</loc></sitemap>"
                    "<sitemap><loc>/list</loc></sitemap></sitemapindex>");
    site_putf(f->site, "/one", NULL,
              OPEN "<url><loc>http://e.org/bbb</loc></url></urlset>");
    site_headers(f->site, "/index", "Date: Sun, 06 Nov 1994 08:49:37 GMT");
    site_headers(f->site, "/one", "Date: Sun, 06 Nov 1994 08:49:37 GMT");
    run(f, "/index", NULL);
    assert_baseline(f, "http://e.org/bbb;http://e.org/aaa;",
                    "@1994-11-05T02:00:00.000000Z+0");

    /* The list's own statement is no guess. */
    site_putf(f->site, "/list", NULL,
              OPEN "<rs:md capability=\"resourcelist\" "
                   "at=\"1991-01-01T00:00:00Z\"/>"
                   "<url><loc>http://e.org/aaa</loc>"
                   "<lastmod>1990-05-05</lastmod></url></urlset>");
    run(f, "/list", NULL);
    assert_baseline(f, "http://e.org/aaa;", "@1991-01-01T00:00:00.000000Z+0");
    assert_string_equal(f->guess, "");
}
