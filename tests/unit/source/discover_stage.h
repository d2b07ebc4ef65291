/*
 * discover_stage.h - the stage of tests of a discovery: a site of documents,
 * and a line for each set that was found there.
 */
#ifndef TESTS_UNIT_SOURCE_DISCOVER_STAGE_H
#define TESTS_UNIT_SOURCE_DISCOVER_STAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "client/source/discovery.h"
#include "proto/buf.h"
#include "tests/clock.h"
#include "tests/support/site.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

#define RS                                                   \
    " xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"" \
    " xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"
#define LIST(capability, inside) \
    "<urlset" RS "<rs:md capability=\"" capability "\"/>" inside "</urlset>"
#define INDEX(capability, inside)                                      \
    "<sitemapindex" RS "<rs:md capability=\"" capability "\"/>" inside \
    "</sitemapindex>"
#define UP(url)    "<rs:ln rel=\"up\" href=\"" url "\"/>"
#define ENTRY(url) "<url><loc>" url "</loc></url>"
#define PART(url)  "<sitemap><loc>" url "</loc></sitemap>"
#define OFFER(url, capability)                                      \
    "<url><loc>" url "</loc><rs:md capability=\"" capability "\"/>" \
    "</url>"
#define CHANGES LIST("capabilitylist", OFFER("/changes.xml", "changelist"))

struct stage {
    struct site *site;
    struct td_client *client;
    struct discovery *discovery;
    struct buf told; /* a line for each set */
    struct problem why;
    const char *known; /* the path of a set that the caller knows, or NULL */
    unsigned silence_s;
    size_t n_missed;
    bool frees; /* at the first set */
    bool is_over;
};

static inline int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->site = site_new();
    s->client = td_open();
    assert_non_null(s->client);
    clock_skip_waits(transfers_none, NULL);
    buf_init(&s->told, SIZE_MAX);
    *state = s;
    return 0;
}

static inline int
clear_stage(void **state)
{
    struct stage *s = *state;

    td_close(s->client);
    site_free(s->site);
    buf_fini(&s->told);
    free(s);
    return 0;
}

static inline void
put(struct stage *s, const char *path, const char *body)
{
    site_put(s->site, path, NULL, slice_of(body));
}

/* Of the site only the path. */
static inline void
add(struct stage *s, const char *name, const char *value)
{
    const char *url = site_url(s->site);
    size_t size = strlen(url);

    if (!value)
        return;
    if (!strncmp(value, url, size))
        value += size;
    buf_add_format(&s->told, "%s%s=%s", name[0] == 'u' ? "" : " ", name, value);
}

static inline void
on_set(struct offered *o, const struct problem *missed, void *user)
{
    struct stage *s = user;

    if (missed)
        BUF_ADD(&s->told, "missed ");
    s->n_missed += missed != NULL;

    add(s, "url", o->url);
    add(s, "name", o->name);
    add(s, "title", o->title);
    add(s, "cl", o->capability_list);
    add(s, "rl", o->resource_list);
    add(s, "rd", o->resource_dump);
    add(s, "ch", o->change_list);
    add(s, "cd", o->change_dump);
    add(s, "rla", o->resource_list_archive);
    add(s, "rda", o->resource_dump_archive);
    add(s, "cla", o->change_list_archive);
    add(s, "cda", o->change_dump_archive);
    add(s, "topic", o->topic);
    add(s, "memory", o->memory);
    add(s, "stream", o->stream);
    add(s, "events", o->events);
    add(s, "position", o->position);
    add(s, "earliest", o->earliest);
    add(s, "date", o->date);
    BUF_ADD(&s->told, "\n");
    if (s->frees) {
        discovery_free(s->discovery);
        s->is_over = true;
    }
}

static inline void
on_end(const struct problem *why, void *user)
{
    struct stage *s = user;

    s->why = *why;
    s->is_over = true;
}

static inline bool
is_known(const char *url, void *user)
{
    const struct stage *s = user;

    return s->known && !strcmp(url, site_link(s->site, s->known));
}

static inline enum status
discover(struct stage *s, const char *url)
{
    static const struct discovery_watch watch = {.is_known = is_known};

    buf_clear(&s->told);
    s->is_over = false;
    s->n_missed = 0;
    s->why.rc = STATUS_STOPPED;
    s->discovery = discovery_start(s->client, url, s->silence_s, &watch, on_set,
                                   on_end, s);
    assert_non_null(s->discovery);
    assert_int_equal(handle_loop_until(s->client->loop, &s->is_over),
                     STATUS_OK);
    BUF_ADD(&s->told, "\0");
    return s->why.rc;
}

static inline void
finds(struct stage *s, const char *path, const char *expected)
{
    if (discover(s, site_link(s->site, path)))
        fail_msg("%s", s->why.text);
    assert_string_equal(s->told.data, expected);
}

/* `text` is in the failure's text; NULL: it may have any. */
static inline void
fails(struct stage *s, const char *path, enum status rc, const char *text)
{
    enum status is = discover(s, site_link(s->site, path));

    if (is != rc || (text && !strstr(s->why.text, text)))
        fail_msg("%s: %d, %s", path, (int)is, s->why.text);
}

#endif
