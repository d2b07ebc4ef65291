#include "tests/support/listed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"

#define XMLNS                                                \
    " xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"" \
    " xmlns:rs=\"http://www.openarchives.org/rs/terms/\">\n"
#define TEXT_MAX ((size_t)64 << 20)
#define PARTS    3U

/* 2026-01-01T00:00:00Z */
#define BEGIN_S INT64_C(1767225600)

/* Writing */

static const char *
time_of(int64_t at_s)
{
    static char text[40];
    time_t at = (time_t)at_s;
    struct tm tm;

    gmtime_r(&at, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    return text;
}

#define NO_TIME INT64_MIN

static void
add_time(struct listed *l, const char *name, int64_t at_s)
{
    if (at_s != NO_TIME)
        buf_add_format(&l->text, " %s=\"%s\"", name, time_of(at_s));
}

/* Of all the times some. */
struct times {
    int64_t at_s, from_s, until_s;
};

static const struct times no_times = {NO_TIME, NO_TIME, NO_TIME};

static void
begin(struct listed *l, const char *root, const char *capability,
      struct times times)
{
    buf_clear(&l->text);
    buf_add_format(&l->text,
                   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%s" XMLNS
                   "<rs:md capability=\"%s\"",
                   root, capability);
    add_time(l, "at", times.at_s);
    add_time(l, "from", times.from_s);
    add_time(l, "until", times.until_s);
    BUF_ADD(&l->text, "/>\n");
}

static void
end(struct listed *l, const char *root, const char *name)
{
    int fd;

    buf_add_format(&l->text, "</%s>\n", root);
    assert_false(l->text.failed);
    fd = openat(l->c->dir.fd, "new.xml",
                O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, l->text.data, l->text.size), l->text.size);
    close(fd);
    assert_int_equal(renameat(l->c->dir.fd, "new.xml", l->c->dir.fd, name), 0);
}

static void
add_capability(struct listed *l, const char *name, const char *capability)
{
    buf_add_format(&l->text,
                   "<url><loc>%s" LISTED_PREFIX
                   "%s</loc><rs:md capability=\"%s\"/></url>\n",
                   l->url, name, capability);
}

static void
write_description(struct listed *l)
{
    begin(l, "urlset", "description", no_times);
    add_capability(l, "capabilities.xml", "capabilitylist");
    end(l, "urlset", "rs/description.xml");
    begin(l, "urlset", "capabilitylist", no_times);
    add_capability(l, "resources.xml", "resourcelist");
    add_capability(l, "changes.xml", "changelist");
    if (l->way == LISTED_INDEX)
        add_capability(l, "archive.xml", "changelist-archive");
    end(l, "urlset", "rs/capabilities.xml");
}

void
listed_open(struct listed *l, struct changing *c, const char *url,
            enum listed_way way, size_t size)
{
    *l = (struct listed){
        .c = c, .url = url, .way = way, .size = size, .clock_s = BEGIN_S};
    l->when_s = calloc(c->max, sizeof(*l->when_s));
    l->last_s = calloc(c->n, sizeof(*l->last_s));
    l->closed = calloc(c->max, sizeof(*l->closed));
    assert_non_null(l->when_s);
    assert_non_null(l->last_s);
    assert_non_null(l->closed);
    buf_init(&l->text, TEXT_MAX);
    assert_int_equal(mkdirat(c->dir.fd, "rs", 0755), 0);
    write_description(l);
    listed_write(l, true);
}

void
listed_close(struct listed *l)
{
    if (!l->when_s)
        return;
    free(l->when_s);
    free(l->last_s);
    free(l->closed);
    buf_fini(&l->text);
}

/* Changes */

void
listed_change(struct listed *l, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        uint32_t id = changing_change(l->c)->id;

        if (die_roll(&l->c->die, 4) == 0 || l->last_s[id] == l->clock_s)
            l->clock_s += 1 + (int64_t)die_roll(&l->c->die, 2);
        l->when_s[l->c->n_all - 1] = l->clock_s;
        l->last_s[id] = l->clock_s;
    }
}

/* Documents */

static void
add_entry(struct listed *l, uint32_t id, int64_t at_s, const char *kind)
{
    buf_add_format(&l->text, "<url><loc>%s%s</loc><lastmod>%s</lastmod>",
                   l->url, changing_path(id), time_of(at_s));
    if (kind)
        buf_add_format(&l->text, "<rs:md change=\"%s\"/>", kind);
    BUF_ADD(&l->text, "</url>\n");
}

/* Changes number `from` to `to`. */
static void
add_changes(struct listed *l, size_t from, size_t to)
{
    for (size_t n = from; n <= to; n++) {
        const struct changed *c = &l->c->all[n - 1];

        add_entry(l, c->id, l->when_s[n - 1], c->kind);
    }
}

static void
write_resources(struct listed *l)
{
    const struct times at = {l->clock_s, NO_TIME, NO_TIME};
    char name[60];

    for (unsigned part = 0; part < PARTS; part++) {
        begin(l, "urlset", "resourcelist", at);
        for (uint32_t id = part; id < l->c->n; id += PARTS)
            if (l->c->now[id])
                add_entry(l, id, l->when_s[l->c->now[id] - 1], NULL);
        snprintf(name, sizeof(name), "rs/resources-%u.xml", part);
        end(l, "urlset", name);
    }
    begin(l, "sitemapindex", "resourcelist", at);
    for (unsigned part = 0; part < PARTS; part++)
        buf_add_format(&l->text,
                       "<sitemap><loc>%s" LISTED_PREFIX
                       "resources-%u.xml</loc></sitemap>\n",
                       l->url, part);
    end(l, "sitemapindex", "rs/resources.xml");
}

/* Where list `i` begins: its first change, and in time where the one before
 * ends. */
static size_t
first_of(const struct listed *l, size_t i)
{
    return i ? l->closed[i - 1] + 1 : 1;
}

static int64_t
from_of(const struct listed *l, size_t i)
{
    return i ? l->when_s[l->closed[i - 1] - 1] + 1 : BEGIN_S;
}

/* An open one has no end. */
static int64_t
until_of(const struct listed *l, size_t i)
{
    return i < l->n_closed ? from_of(l, i + 1) : NO_TIME;
}

static void
name_list(const struct listed *l, size_t i, char name[60])
{
    if (i < l->n_closed)
        snprintf(name, 60, "rs/changes-%zu.xml", i);
    else
        snprintf(name, 60, "rs/latest.xml");
}

static void
write_list(struct listed *l, size_t i)
{
    char name[60];

    name_list(l, i, name);
    begin(l, "urlset", "changelist",
          (struct times){NO_TIME, from_of(l, i), until_of(l, i)});
    add_changes(l, first_of(l, i),
                i < l->n_closed ? l->closed[i] : l->c->n_all);
    end(l, "urlset", name);
}

/* Names the lists from `i` to before `to`: in an index of Change Lists, or in
 * an archive, which is a list itself. */
static void
write_index(struct listed *l, const char *name, bool is_archive, size_t i,
            size_t to)
{
    const char *root = is_archive ? "urlset" : "sitemapindex";
    const char *entry = is_archive ? "url" : "sitemap";
    char list[60];

    begin(l, root, is_archive ? "changelist-archive" : "changelist",
          (struct times){NO_TIME, from_of(l, i), NO_TIME});
    for (; i < to; i++) {
        name_list(l, i, list);
        buf_add_format(&l->text, "<%s><loc>%s/%s</loc><rs:md", entry, l->url,
                       list);
        if (is_archive)
            BUF_ADD(&l->text, " capability=\"changelist\"");
        add_time(l, "from", from_of(l, i));
        add_time(l, "until", until_of(l, i));
        buf_add_format(&l->text, "/></%s>\n", entry);
    }
    end(l, root, name);
}

/* The open list is closed when it is full, at the end of a second. */
static void
write_lists(struct listed *l)
{
    size_t in_index;
    char name[60];

    if (l->c->n_all + 1 - first_of(l, l->n_closed) >= l->size) {
        l->closed[l->n_closed] = l->c->n_all;
        l->n_closed++;
        write_list(l, l->n_closed - 1);
        l->clock_s = from_of(l, l->n_closed);
    }
    write_list(l, l->n_closed);
    in_index =
        l->n_closed > LISTED_IN_INDEX ? l->n_closed - LISTED_IN_INDEX : 0;
    write_index(l, "rs/archive.xml", true,
                l->n_closed > LISTED_KEPT ? l->n_closed - LISTED_KEPT : 0,
                in_index);
    write_index(l, "rs/changes.xml", false, in_index, l->n_closed + 1);
    if (l->n_closed > LISTED_KEPT) {
        name_list(l, l->n_closed - LISTED_KEPT - 1, name);
        unlinkat(l->c->dir.fd, name, 0);
    }
}

static void
write_window(struct listed *l)
{
    size_t n = l->c->n_all;

    begin(l, "urlset", "changelist", no_times);
    add_changes(l, n > l->size ? n - l->size + 1 : 1, n);
    end(l, "urlset", "rs/changes.xml");
}

void
listed_write(struct listed *l, bool resources)
{
    if (l->way == LISTED_WINDOW)
        write_window(l);
    else
        write_lists(l);
    if (resources)
        write_resources(l);
}
