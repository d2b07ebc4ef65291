/*
 * baseline_past_test.c - the list from which the state of a past time follows.
 */
#include "client/baseline/baseline.h"
#include "tests/test.h"
#include "tests/unit/baseline/baseline_stage.h"

FIXTURE(set_up, tear_down);

/* the newest list or dump that was complete then, by archives, or by the
 * roots of lists. */
TEST(begins_with_the_newest_list_that_was_complete)
{
    struct fixture *f = *state;

    static const struct {
        const char *as_of, *told, *place;
        enum status rc;
    } rows[] = {
        {"2026-01-02", "http://e.org/first;", "2026-01-02", STATUS_OK},
        {"2026-01-02T23:59:59Z", "http://e.org/first;", "2026-01-02",
         STATUS_OK},
        /* A dump is better than a list of its time. */
        {"2026-01-03", "http://e.org/one one;", "2026-01-03", STATUS_OK},
        /* A list was still written then. */
        {"2026-01-05", "http://e.org/one one;", "2026-01-03", STATUS_OK},
        {"2026-01-06", "http://e.org/third;", "2026-01-04", STATUS_OK},
        /* The present one. */
        {"2026-01-08", "http://e.org/now;", "2026-01-07", STATUS_OK},
        {"2026-01-01T23:59:59Z", "those from 2026-01-02T00:00:00Z on", NULL,
         STATUS_GONE},
        {"2999-01-01", "those from 2026-01-02T00:00:00Z on", NULL,
         STATUS_INVALID},
        /* The document is not the one that its archive names. */
        {"2026-01-09", "a later list has replaced", NULL, STATUS_UNREACHABLE},
    };

    const char *list = OPEN "<rs:md capability=\"resourcelist\" %s/>"
                            "<url><loc>http://e.org/%s</loc></url></urlset>";
    const char *row = "<url><loc>%s/%s</loc><rs:md %s/></url>";
    const char *url = site_url(f->site);
    struct buf archive;

    buf_init(&archive, 10000);
    buf_add_text(&archive, OPEN "<rs:md capability=\"resourcelist-archive\"/>");
    buf_add_format(&archive, row, url, "third",
                   "at=\"2026-01-04T00:00:00Z\" "
                   "completed=\"2026-01-06T00:00:00Z\"");
    buf_add_format(&archive, row, url, "first", "at=\"2026-01-02T00:00:00Z\"");
    buf_add_format(&archive, row, url, "second", ""); /* its root says when */
    buf_add_format(&archive, row, url, "missing", "");
    buf_add_format(&archive, row, url, "other", "at=\"2026-01-09T00:00:00Z\"");
    BUF_ADD(&archive, "</urlset>");
    site_putf(f->site, "/archive", NULL, "%.*s",
              SLICE_ARG(buf_slice(&archive)));
    buf_fini(&archive);
    site_putf(f->site, "/first", NULL, list, "", "first");
    site_putf(f->site, "/second", NULL, list, "at=\"2026-01-03T00:00:00Z\"",
              "second");
    site_putf(f->site, "/third", NULL, list, "", "third");
    site_putf(f->site, "/other", NULL, list, "at=\"2026-01-10T00:00:00Z\"",
              "other");
    site_putf(f->site, "/now", NULL, list, "at=\"2026-01-07T00:00:00Z\"",
              "now");
    put_dump(f, OPEN "<rs:md capability=\"resourcedump-manifest\" "
                     "at=\"2026-01-03T00:00:00Z\"/>"
                     "<url><loc>http://e.org/one</loc>"
                     "<rs:md path=\"/1\"/></url></urlset>");
    f->offered.resource_list_archive = (char *)site_link(f->site, "/archive");

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        char place[TD_POSITION_SIZE];

        f->as_of = rows[i].as_of;
        run(f, "/now", "/dump");
        if (rows[i].rc) {
            assert_fails(f, rows[i].rc, rows[i].told);
            continue;
        }
        snprintf(place, sizeof(place), "@%sT00:00:00.000000Z+0", rows[i].place);
        assert_baseline(f, rows[i].told, place);
    }
    /* Where no package can be kept, a dump is none. */
    f->as_of = "2026-01-03";
    run(f, "/now", NULL);
    assert_baseline(f, "http://e.org/second;",
                    "@2026-01-03T00:00:00.000000Z+0");
    /* Where no file is wanted, a list is better than a dump of its time. */
    f->is_listed = true;
    run(f, "/now", "/dump");
    assert_baseline(f, "http://e.org/second;",
                    "@2026-01-03T00:00:00.000000Z+0");
    f->offered.resource_list_archive = NULL;
    run(f, "/now", "/dump");
    assert_baseline(f, "http://e.org/one;", "@2026-01-03T00:00:00.000000Z+0");
    assert_scratch_empty(f);
}

/* Nothing has a time: then nothing is of the past. */
TEST(says_that_there_is_no_past)
{
    struct fixture *f = *state;

    site_putf(f->site, "/list", NULL,
              OPEN "<url><loc>http://e.org/a</loc></url></urlset>");
    f->as_of = "2026-01-03";
    run(f, "/list", NULL);
    assert_fails(f, STATUS_GONE,
                 "no list of 2026-01-03T00:00:00Z, and not all changes");
    run(f, "/nothing", NULL);
    assert_fails(f, STATUS_REFUSED, "404");
    run(f, NULL, NULL);
    assert_fails(f, STATUS_GONE,
                 "no list of 2026-01-03T00:00:00Z, and not all changes");
}
