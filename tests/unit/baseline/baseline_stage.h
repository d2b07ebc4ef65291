/*
 * baseline_stage.h - the stage of tests of a baseline: a site that offers a
 * list or a dump, and the reported resources.
 */
#ifndef TESTS_UNIT_BASELINE_BASELINE_STAGE_H
#define TESTS_UNIT_BASELINE_BASELINE_STAGE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "client/baseline/baseline.h"
#include "client/lib/handle_loop.h"
#include "tests/clock.h"
#include "tests/support/site.h"
#include "tests/support/tempdir.h"
#include "tests/support/zips.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

#define OPEN                                                         \
    "<?xml version=\"1.0\"?>"                                        \
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\" "            \
    "xmlns:td=\"urn:tidings:1\">"
#define INDEX                                                              \
    "<sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\" "                  \
    "xmlns:td=\"urn:tidings:1\">"
#define LIST "<rs:md capability=\"resourcelist\" at=\"2026-01-02T00:00:00Z\"/>"
#define DUMP "<rs:md capability=\"resourcedump\" at=\"2026-01-03T00:00:00Z\"/>"
#define MANIFEST                                        \
    OPEN "<rs:md capability=\"resourcedump-manifest\" " \
         "at=\"2026-01-01T00:00:00Z\"/>"

/* Of "one". */
#define MD5_ONE "md5:f97c5d29941bfb1b2fdab0874906ab82"

struct fixture {
    struct tempdir served;
    struct tempdir scratch;
    struct site *site;
    struct td_client *client;
    struct offered offered;
    struct baseline *baseline;
    struct buf told; /* "LOC FILE'S CONTENT;" of each entry */
    struct buf notes;
    unsigned n;
    unsigned stops_at;                 /* entry that is answered with false */
    unsigned frees_at;                 /* entry at which all is freed */
    bool pauses;                       /* after each entry */
    void (*on_nth)(struct fixture *f); /* at each entry; or NULL */
    unsigned window;                   /* of put_pages */
    bool is_listed;                    /* resources come without files */
    const char *as_of;                 /* a past time; NULL: none */
    int64_t as_of_us;
    bool is_paused;
    bool is_over;
    struct problem why;
    char place[TD_POSITION_SIZE];
    char guess[TD_POSITION_SIZE];
};

static inline int
set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    tempdir_open(&f->served);
    tempdir_open(&f->scratch);
    f->site = site_new();
    site_dir(f->site, "/files/", f->served.path);
    f->client = td_open();
    assert_non_null(f->client);
    clock_skip_waits(transfers_none, NULL);
    buf_init(&f->told, 1 << 26);
    buf_init(&f->notes, 1 << 16);
    *state = f;
    return 0;
}

static inline int
tear_down(void **state)
{
    struct fixture *f = *state;

    baseline_free(f->baseline);
    td_close(f->client);
    site_free(f->site);
    tempdir_close(&f->served);
    tempdir_close(&f->scratch);
    buf_fini(&f->told);
    buf_fini(&f->notes);
    free(f);
    return 0;
}

static inline bool
on_entry(const struct document_entry *entry, const char *file, void *user)
{
    struct fixture *f = user;
    char bytes[100];
    ssize_t n;
    int fd;

    assert_false(f->is_paused);
    buf_add_slice(&f->told, entry->change.loc);
    if (file) {
        fd = openat(f->scratch.fd, file, O_RDONLY);
        assert_true(fd >= 0);
        n = read(fd, bytes, sizeof(bytes));
        close(fd);
        buf_add_format(&f->told, " %.*s", (int)n, bytes);
    }
    BUF_ADD(&f->told, ";");
    f->n++;
    if (f->on_nth)
        f->on_nth(f);
    if (f->n == f->frees_at) {
        baseline_free(f->baseline);
        f->baseline = NULL;
        f->is_over = true;
        return false;
    }
    if (f->n == f->stops_at) {
        f->is_over = true;
        return false;
    }
    if (f->pauses) {
        baseline_hold(f->baseline, true);
        f->is_paused = true;
        f->is_over = true;
    }
    return true;
}

static inline void
on_end(const struct problem *why, const struct source_position *place,
       const struct source_position *guess, void *user)
{
    struct fixture *f = user;

    assert_false(f->is_paused);
    f->why = *why;
    f->place[0] = '\0';
    assert_int_equal(why->rc == STATUS_OK, place != NULL);
    if (place)
        source_position_write(f->place, place);
    f->guess[0] = '\0';
    if (guess)
        source_position_write(f->guess, guess);
    f->baseline = NULL;
    f->is_over = true;
}

static inline void
on_note(const char *text, void *user)
{
    struct fixture *f = user;

    buf_add_text(&f->notes, text);
    BUF_ADD(&f->notes, "\n");
}

static inline void
on_anew(const char *why, void *user)
{
    struct fixture *f = user;

    on_note(why, user);
    buf_clear(&f->told);
}

static const char *
text_of(struct buf *b)
{
    buf_add(b, "", 1);
    b->size--;
    return b->data;
}

static inline void
start(struct fixture *f, const char *list, const char *dump)
{
    struct baseline_plan plan = {
        .offered = &f->offered,
        .scratch = dump ? f->scratch.path : NULL,
        .wants_files = dump && !f->is_listed,
        .on_note = on_note,
        .on_anew = on_anew,
        .on_doubt = on_note,
        .as_of_us = f->as_of ? &f->as_of_us : NULL,
    };

    if (f->as_of)
        assert_int_equal(datetime_read_any(slice_of(f->as_of), &f->as_of_us),
                         STATUS_OK);
    f->offered.resource_list = list ? (char *)site_link(f->site, list) : NULL;
    f->offered.resource_dump = dump ? (char *)site_link(f->site, dump) : NULL;
    buf_clear(&f->told);
    buf_clear(&f->notes);
    f->n = 0;
    f->is_over = false;
    f->baseline = baseline_start(f->client, &plan, on_entry, on_end, f);
    assert_non_null(f->baseline);
}

static inline void
run(struct fixture *f, const char *list, const char *dump)
{
    start(f, list, dump);
    assert_int_equal(handle_loop_until(f->client->loop, &f->is_over),
                     STATUS_OK);
}

static inline void
assert_baseline(struct fixture *f, const char *told, const char *place)
{
    if (f->why.rc)
        fail_msg("%s", f->why.text);
    assert_string_equal(text_of(&f->told), told);
    assert_string_equal(f->place, place);
}

static inline void
assert_fails(struct fixture *f, enum status rc, const char *because)
{
    if (!strstr(f->why.text, because))
        fail_msg("\"%s\" does not say \"%s\"", f->why.text, because);
    assert_int_equal(f->why.rc, rc);
}

/* Nothing is left in the scratch directory. */
static inline void
assert_scratch_empty(struct fixture *f)
{
    int fd = openat(f->scratch.fd, ".", O_RDONLY | O_DIRECTORY);
    DIR *dir = fdopendir(fd);
    struct dirent *entry;

    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            fail_msg("%s is left", entry->d_name);
    closedir(dir);
}

/* Serves a dump of one package that holds "one" at /1 and "two" at /2. */
static inline void
put_dump(struct fixture *f, const char *manifest)
{
    struct zips z;

    zips_begin(&z, f->served.fd, "p.zip");
    zips_add(&z, "1", SLICE("one"));
    zips_add(&z, "2", SLICE("two"));
    zips_add(&z, "manifest.xml", slice_of(manifest));
    zips_end(&z);
    site_putf(f->site, "/dump", NULL,
              OPEN DUMP "<url><loc>%s/files/p.zip</loc>"
                        "<rs:md type=\"application/zip\"/></url></urlset>",
              site_url(f->site));
}

#endif
