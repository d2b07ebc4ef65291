/*
 * sync_static_test.c - `tidings sync` and `tidings audit` of a ResourceSync
 * site that has no Tidings in it: files, served by a web server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/mirrored.h"
#include "tests/support/zips.h"
#include "tests/test.h"

#define XML "application/xml"
#define HEAD                                                         \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"                   \
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">\n"

#define assert_ends(m, expected, status)                                       \
    do {                                                                       \
        int status_ = (status);                                                \
        if (status_ != (expected))                                             \
            fail_msg("it ended with %d: %s%s", status_, (m)->command.out_text, \
                     (m)->command.err_text);                                   \
    } while (0)
#define assert_sync(m, expected) \
    assert_ends((m), (expected), mirrored_sync((m), NULL))
#define assert_audit(m, expected) \
    assert_ends((m), (expected), mirrored_audit((m), NULL))

/* 00:00 + `minute` of a day. */
static void
put_resource(struct mirrored *m, struct buf *list, const char *path,
             unsigned minute, const char *change)
{
    buf_add_format(list,
                   "<url><loc>%s%s</loc><lastmod>2026-01-01T00:%02u:00Z"
                   "</lastmod>",
                   site_url(m->site), path, minute);
    if (change)
        buf_add_format(list, "<rs:md change=\"%s\"/>", change);
    buf_add_text(list, "</url>\n");
}

/* What the site has, as the test knows it: the mirror is held against that. */
static void
set_resource(struct mirrored *m, const char *path, const char *text)
{
    mirrored_change(m, path, text);
    buf_clear(&m->post);
}

static void
put_lists(struct mirrored *m, struct slice resources, struct slice changes)
{
    const char *url = site_url(m->site);

    site_putf(m->site, "/resourcesync.xml", XML,
              HEAD "<rs:md capability=\"description\"/>\n"
                   "<url><loc>%s/capability.xml</loc>"
                   "<rs:md capability=\"capabilitylist\"/></url></urlset>",
              url);
    site_putf(m->site, "/capability.xml", XML,
              HEAD "<rs:ln rel=\"up\" href=\"%s/resourcesync.xml\"/>"
                   "<rs:md capability=\"capabilitylist\"/>\n"
                   "<url><loc>%s/resources.xml</loc>"
                   "<rs:md capability=\"resourcelist\"/></url>"
                   "<url><loc>%s/changes.xml</loc>"
                   "<rs:md capability=\"changelist\"/></url></urlset>",
              url, url, url);
    site_putf(m->site, "/resources.xml", XML,
              HEAD "<rs:md capability=\"resourcelist\" "
                   "at=\"2026-01-01T00:10:00Z\"/>\n%.*s</urlset>",
              SLICE_ARG(resources));
    site_putf(m->site, "/changes.xml", XML,
              HEAD "<rs:md capability=\"changelist\" "
                   "from=\"2026-01-01T00:00:00Z\"/>\n%.*s</urlset>",
              SLICE_ARG(changes));
    snprintf(m->set_url, sizeof(m->set_url), "%s/resourcesync.xml", url);
}

FIXTURE(mirrored_setup, mirrored_teardown);

/* baseline from the list, then the changes since; deletions, too. */
TEST(mirrors_a_site_without_tidings)
{
    struct mirrored *m = *state;
    struct buf resources;
    struct buf changes;

    buf_init(&resources, 100000);
    buf_init(&changes, 100000);
    set_resource(m, "/a.txt", "a");
    set_resource(m, "/b.txt", "b");
    set_resource(m, "/c", "c");
    put_resource(m, &resources, "/a.txt", 1, NULL);
    put_resource(m, &resources, "/b.txt", 2, NULL);
    put_lists(m, buf_slice(&resources), buf_slice(&changes));
    set_resource(m, "/c", NULL);
    assert_sync(m, 0);
    mirrored_assert_same(m);
    assert_audit(m, 0);

    set_resource(m, "/a.txt", "A!");
    set_resource(m, "/b.txt", NULL);
    set_resource(m, "/d.txt", "new");
    put_resource(m, &changes, "/a.txt", 11, "updated");
    put_resource(m, &changes, "/b.txt", 12, "deleted");
    put_resource(m, &changes, "/d.txt", 13, "created");
    put_lists(m, buf_slice(&resources), buf_slice(&changes));
    assert_audit(m, 1);
    assert_sync(m, 0);
    mirrored_assert_same(m);
    assert_int_equal(site_count(m->site, "/a.txt"), 2);

    /* Nothing new: nothing is fetched again. */
    assert_sync(m, 0);
    assert_int_equal(site_count(m->site, "/a.txt"), 2);
    assert_int_equal(site_count(m->site, "/d.txt"), 1);
    assert_audit(m, 0);
    buf_fini(&resources);
    buf_fini(&changes);
}

/* The changes do not reach back: the list is read anew, and what it does not
 * have is removed. */
TEST(begins_anew_where_the_changes_do_not_reach_back)
{
    struct mirrored *m = *state;
    struct buf resources;
    struct buf changes;

    buf_init(&resources, 100000);
    buf_init(&changes, 100000);
    set_resource(m, "/a.txt", "a");
    set_resource(m, "/b.txt", "b");
    put_resource(m, &resources, "/a.txt", 1, NULL);
    put_resource(m, &resources, "/b.txt", 2, NULL);
    put_lists(m, buf_slice(&resources), buf_slice(&changes));
    assert_sync(m, 0);
    mirrored_assert_same(m);

    /* While they do, it goes on from its position. */
    assert_sync(m, 0);
    assert_int_equal(site_count(m->site, "/resources.xml"), 1);

    set_resource(m, "/b.txt", NULL);
    set_resource(m, "/c.txt", "c");
    buf_clear(&resources);
    put_resource(m, &resources, "/a.txt", 1, NULL);
    put_resource(m, &resources, "/c.txt", 40, NULL);
    site_putf(m->site, "/resources.xml", XML,
              HEAD "<rs:md capability=\"resourcelist\" "
                   "at=\"2026-01-01T00:50:00Z\"/>\n%.*s</urlset>",
              SLICE_ARG(buf_slice(&resources)));
    site_putf(m->site, "/changes.xml", XML,
              HEAD "<rs:md capability=\"changelist\" "
                   "from=\"2026-01-01T00:45:00Z\"/></urlset>%s",
              "");
    assert_sync(m, 0);
    assert_non_null(strstr(m->command.err_text, "a baseline is taken"));
    mirrored_assert_same(m);
    assert_int_equal(site_count(m->site, "/a.txt"), 1);
    buf_fini(&resources);
    buf_fini(&changes);
}

/* Begins a Resource Dump with one package, /package.zip, and offers it. */
static void
put_dump(struct mirrored *m, struct slice manifest, const char *const *files)
{
    const char *url = site_url(m->site);
    struct buf text;
    struct zips zip;

    buf_init(&text, 100000);
    buf_add_format(&text,
                   HEAD "<rs:md capability=\"resourcedump-manifest\" "
                        "at=\"2026-01-01T00:10:00Z\"/>\n%.*s</urlset>",
                   SLICE_ARG(manifest));
    zips_begin(&zip, m->home.fd, "package.zip");
    zips_add(&zip, "manifest.xml", buf_slice(&text));
    for (; files[0]; files += 2)
        zips_add(&zip, files[0], slice_of(files[1]));
    zips_end(&zip);
    buf_fini(&text);
    site_dir(m->site, "/dumps/", m->home.path);
    site_putf(m->site, "/dump.xml", XML,
              HEAD "<rs:md capability=\"resourcedump\" "
                   "at=\"2026-01-01T00:10:00Z\"/>\n"
                   "<url><loc>%s/dumps/package.zip</loc></url></urlset>",
              url);
    site_putf(m->site, "/capability.xml", XML,
              HEAD "<rs:ln rel=\"up\" href=\"%s/resourcesync.xml\"/>"
                   "<rs:md capability=\"capabilitylist\"/>\n"
                   "<url><loc>%s/resources.xml</loc>"
                   "<rs:md capability=\"resourcelist\"/></url>"
                   "<url><loc>%s/dump.xml</loc>"
                   "<rs:md capability=\"resourcedump\"/></url>"
                   "<url><loc>%s/changes.xml</loc>"
                   "<rs:md capability=\"changelist\"/></url></urlset>",
              url, url, url, url);
}

/* what a dump has is not fetched; without dumps it is. */
TEST(takes_files_from_a_dump)
{
    static const char *const files[] = {"r/a.txt", "a", "r/b.txt", "b", NULL};
    struct mirrored *m = *state;
    struct buf resources;
    struct buf manifest;

    buf_init(&resources, 100000);
    buf_init(&manifest, 100000);
    set_resource(m, "/a.txt", "a");
    set_resource(m, "/b.txt", "b");
    put_resource(m, &resources, "/a.txt", 1, NULL);
    put_resource(m, &resources, "/b.txt", 2, NULL);
    put_lists(m, buf_slice(&resources), SLICE(""));
    for (int i = 0; i < 4; i += 2)
        buf_add_format(&manifest,
                       "<url><loc>%s%s</loc>"
                       "<rs:md path=\"/%s\" length=\"1\"/></url>\n",
                       site_url(m->site), files[i] + 1, files[i]);
    put_dump(m, buf_slice(&manifest), files);

    assert_sync(m, 0);
    mirrored_assert_same(m);
    assert_int_equal(site_count(m->site, "/dumps/package.zip"), 1);
    assert_int_equal(site_count(m->site, "/a.txt"), 0);
    assert_int_equal(site_count(m->site, "/b.txt"), 0);

    snprintf(m->dir, sizeof(m->dir), "%s/other", m->home.path);
    assert_ends(m, 0, mirrored_sync(m, "--no-dumps", NULL));
    mirrored_assert_same(m);
    assert_int_equal(site_count(m->site, "/dumps/package.zip"), 1);
    assert_int_equal(site_count(m->site, "/a.txt"), 1);
    buf_fini(&resources);
    buf_fini(&manifest);
}

/* None is left out in silence. */
TEST(refuses_a_source_of_too_many_sets)
{
    enum { N = 1001 };
    struct mirrored *m = *state;
    const char *url = site_url(m->site);
    struct buf sets;
    char path[32];

    buf_init(&sets, 1 << 20);
    for (unsigned i = 0; i < N; i++) {
        snprintf(path, sizeof(path), "/c/%u.xml", i);
        site_putf(m->site, path, XML,
                  HEAD "<rs:md capability=\"capabilitylist\"/>"
                       "<url><loc>%s/resources.xml</loc>"
                       "<rs:md capability=\"resourcelist\"/></url></urlset>",
                  url);
        buf_add_format(&sets,
                       "<url><loc>%s%s</loc>"
                       "<rs:md capability=\"capabilitylist\"/></url>\n",
                       url, path);
    }
    site_putf(m->site, "/resourcesync.xml", XML,
              HEAD "<rs:md capability=\"description\"/>\n%.*s</urlset>",
              SLICE_ARG(buf_slice(&sets)));
    buf_fini(&sets);
    snprintf(m->set_url, sizeof(m->set_url), "%s/resourcesync.xml", url);
    assert_sync(m, 1);
    assert_non_null(strstr(m->command.err_text,
                           "has more than 1000 sets: mirror them one by one"));
    assert_int_equal(site_count(m->site, "/resources.xml"), 0);
}
