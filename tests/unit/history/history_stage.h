/*
 * history_stage.h - the stage of tests of a history: a site with Change Lists,
 * and the entries that the history reported.
 */
#ifndef TESTS_UNIT_HISTORY_HISTORY_STAGE_H
#define TESTS_UNIT_HISTORY_HISTORY_STAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/history/history.h"
#include "client/lib/client.h"
#include "tests/clock.h"
#include "tests/support/gzip.h"
#include "tests/support/site.h"
#include "tests/support/tempdir.h"
#include "tests/support/zips.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

#define EPOCH "0123456789abcdef"
#define NS                                                   \
    " xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"" \
    " xmlns:rs=\"http://www.openarchives.org/rs/terms/\""    \
    " xmlns:td=\"urn:tidings:1\">"
#define ROOT(root, attributes, inside)                                     \
    "<" root NS "<rs:md capability=\"changelist\" " attributes "/>" inside \
    "</" root ">"
#define LIST(attributes, inside)  ROOT("urlset", attributes, inside)
#define INDEX(attributes, inside) ROOT("sitemapindex", attributes, inside)
#define OF(root, capability, inside) \
    "<" root NS "<rs:md capability=\"" capability "\"/>" inside "</" root ">"
#define ARCHIVE(inside)       OF("urlset", "changelist-archive", inside)
#define ARCHIVE_INDEX(inside) OF("sitemapindex", "changelist-archive", inside)
#define LINK(rel, href)       "<rs:ln rel=\"" rel "\" href=\"" href "\"/>"

/* The day of September 2026. */
#define DAY(day)   "2026-09-" day "T00:00:00Z"
#define FROM(day)  "from=\"" DAY(day) "\" "
#define UNTIL(day) "until=\"" DAY(day) "\" "
#define SEQS(from, to) \
    "td:epoch=\"" EPOCH "\" td:after=\"" from "\" td:last=\"" to "\" "

#define CHANGE(name, day)                                                \
    "<url><loc>http://r.example/" name "</loc><rs:md change=\"updated\"" \
    " datetime=\"" DAY(day) "\"/></url>"
#define MODIFIED(name, day)                 \
    "<url><loc>http://r.example/" name      \
    "</loc><lastmod>" DAY(day) "</lastmod>" \
                               "<rs:md change=\"updated\"/></url>"
#define UNTIMED(name)                                                      \
    "<url><loc>http://r.example/" name "</loc><rs:md change=\"created\"/>" \
    "</url>"
#define NUMBERED(name, day, seq)                                         \
    "<url><loc>http://r.example/" name "</loc><rs:md change=\"updated\"" \
    " datetime=\"" DAY(day) "\" td:seq=\"" seq "\"/></url>"
#define PART(url, attributes) \
    "<sitemap><loc>" url "</loc><rs:md " attributes "/></sitemap>"
#define NAMED(url) "<sitemap><loc>" url "</loc></sitemap>"
#define AS_URL(url, attributes) \
    "<url><loc>" url "</loc><rs:md " attributes "/></url>"

struct stage {
    struct site *site;
    struct td_client *client;
    struct offered offered;
    struct history *history;
    const char *scratch;
    struct buf files; /* "BYTES;" of each entry that has some */
    struct read_lists read;
    struct read_lists *lists; /* `read`; NULL: the place alone is known */
    struct history_notes notes;
    bool begins_now; /* whatever the place is */
    bool keeps_no_etag;
    struct buf told;   /* "NAME@PLACE " of each entry */
    char names[20000]; /* "NAME " of each */
    char upto[TD_POSITION_SIZE];
    unsigned silence_s;
    struct source_position
        reached; /* the same, with its mark; `upto` has none */
    struct problem why;
    bool is_over;
    unsigned n_told;
    unsigned pauses_at; /* pauses after this many entries */
    unsigned frees_at;
    unsigned moves_at; /* after this many entries the source changes */
    void (*move)(struct stage *s);
    bool waits; /* for a document that is unavailable for now ... */
    unsigned n_waits;
    unsigned waited_ms;   /* ... the last time */
    unsigned gives_up_at; /* frees it when it was to wait so often */
    unsigned pauses_wait_at;
    unsigned moves_wait_at;
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
    buf_init(&s->files, SIZE_MAX);
    *state = s;
    return 0;
}

static inline int
clear_stage(void **state)
{
    struct stage *s = *state;

    db_close(&s->read.db);
    td_close(s->client);
    site_free(s->site);
    buf_fini(&s->told);
    buf_fini(&s->files);
    offered_fini(&s->offered);
    free(s);
    return 0;
}

static inline void
put(struct stage *s, const char *path, const char *body)
{
    site_put(s->site, path, NULL, slice_of(body));
}

static inline void
write_unmarked(char to[TD_POSITION_SIZE], const struct source_position *place)
{
    struct source_position unmarked = *place;

    unmarked.mark = 0;
    unmarked.has_list = false;
    source_position_write(to, &unmarked);
}

/* Notes the bytes that come with an entry. */
static inline void
note_file(struct stage *s, const char *file)
{
    char path[700];
    char bytes[100];
    FILE *from;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s", s->scratch, file);
    from = fopen(path, "r");
    assert_non_null(from);
    n = fread(bytes, 1, sizeof(bytes), from);
    fclose(from);
    buf_add_format(&s->files, "%.*s;", (int)n, bytes);
}

static inline bool
on_entry(const struct document_entry *entry,
         const struct source_position *after, const char *file, void *user)
{
    struct stage *s = user;
    struct slice loc = entry->change.loc;
    const char *name = memrchr(loc.data, '/', loc.size);
    size_t size = loc.size - (size_t)(name + 1 - loc.data);
    char place[TD_POSITION_SIZE];

    assert_false(s->pauses_at && s->n_told == s->pauses_at);
    write_unmarked(place, after);
    s->reached = *after;
    buf_add_format(&s->told, "%.*s %s\n", (int)size, name + 1, place);
    if (file)
        note_file(s, file);
    if (strlen(s->names) + size + 2 < sizeof(s->names)) {
        strncat(s->names, name + 1, size);
        strcat(s->names, " ");
    }
    s->n_told++;
    if (s->n_told == s->moves_at)
        s->move(s);
    if (s->n_told == s->pauses_at) {
        history_hold(s->history, true);
        s->is_over = true;
    }
    if (s->n_told == s->frees_at) {
        history_free(s->history);
        s->is_over = true;
        return false;
    }
    return true;
}

static inline void
on_end(const struct problem *why, const struct source_position *upto,
       void *user)
{
    struct stage *s = user;

    s->why = *why;
    write_unmarked(s->upto, upto);
    s->reached = *upto;
    s->is_over = true;
}

static inline bool
on_wait(const struct problem *why, unsigned *ms, void *user)
{
    struct stage *s = user;

    assert_int_equal(why->rc, STATUS_UNREACHABLE);
    s->why = *why;
    s->waited_ms = *ms;
    s->n_waits++;
    if (s->n_waits == s->gives_up_at) {
        history_free(s->history);
        s->is_over = true;
        return false;
    }
    if (s->n_waits == s->moves_wait_at)
        s->move(s);
    if (s->n_waits == s->pauses_wait_at) {
        history_hold(s->history, true);
        s->is_over = true;
    }
    return true;
}

static inline void
go_on(struct stage *s)
{
    s->is_over = false;
    assert_int_equal(handle_loop_until(s->client->loop, &s->is_over),
                     STATUS_OK);
}

/* From `after` on; an address is a path of the site. */
static inline enum status
read_after(struct stage *s, const char *after)
{
    struct history_plan plan = {.offered = &s->offered,
                                .lists = s->lists,
                                .notes = &s->notes,
                                .scratch = s->scratch,
                                .silence_s = s->silence_s,
                                .on_wait = s->waits ? on_wait : NULL};

    assert_int_equal(source_position_read(slice_of(after), &plan.after),
                     STATUS_OK);
    plan.after.is_end = s->begins_now;
    buf_clear(&s->told);
    buf_clear(&s->files);
    s->names[0] = '\0';
    s->n_told = 0;
    s->why.rc = STATUS_STOPPED;
    s->notes.doubt = (struct problem){.text = ""};
    if (s->keeps_no_etag)
        s->notes.etag[0] = '\0';
    s->history = history_start(s->client, &plan, on_entry, on_end, s);
    assert_non_null(s->history);
    go_on(s);
    if (s->lists && !s->why.rc)
        assert_int_equal(read_lists_commit(s->lists, NULL), STATUS_OK);
    return s->why.rc;
}

static inline void
offer(struct stage *s, char **member, const char *path)
{
    free(*member);
    *member = strdup(site_link(s->site, path));
}

/* The source offers a Change List, /c.xml. */
static inline void
offer_list(struct stage *s, const char *body)
{
    offer(s, &s->offered.change_list, "/c.xml");
    put(s, "/c.xml", body);
}

/* Sends what the last time said of the list. */
static inline void
tells_again(struct stage *s, const char *after, const char *names,
            const char *upto)
{
    if (read_after(s, after))
        fail_msg("after %s: %s", after, s->why.text);
    assert_string_equal(s->names, names);
    if (upto)
        assert_string_equal(s->upto, upto);
}

static inline void
tells(struct stage *s, const char *after, const char *names, const char *upto)
{
    s->notes.etag[0] = '\0';
    tells_again(s, after, names, upto);
}

static inline void
is_gone(struct stage *s, const char *after)
{
    s->notes.etag[0] = '\0';
    assert_int_equal(read_after(s, after), STATUS_GONE);
    assert_string_equal(s->names, "");
}

/* Reads on from the last place, written and read as a position. */
static inline enum status
read_on(struct stage *s)
{
    char position[TD_POSITION_SIZE];

    source_position_write(position, &s->reached);
    s->notes.etag[0] = '\0';
    return read_after(s, position);
}

static inline void
tells_on(struct stage *s, const char *names)
{
    if (read_on(s))
        fail_msg("%s", s->why.text);
    assert_string_equal(s->names, names);
}

#define AT(day)      "@2026-09-" day "T00:00:00.000000Z+0"
#define AT_N(day, n) "@2026-09-" day "T00:00:00.000000Z+" n

/* Four lists, as an index and an archive name them. */
#define PART_1     PART("/1.xml", FROM("01") UNTIL("03"))
#define PART_2     PART("/2.xml", FROM("03") UNTIL("05"))
#define PART_3     PART("/3.xml", FROM("05") UNTIL("07"))
#define PART_4     PART("/4.xml", FROM("07"))
#define FOUR_LISTS PART_1 PART_2 PART_3 PART_4
#define URL_1      AS_URL("/1.xml", FROM("01") UNTIL("03"))
#define URL_2      AS_URL("/2.xml", FROM("03") UNTIL("05"))
#define URL_3      AS_URL("/3.xml", FROM("05") UNTIL("07"))

static inline void
put_four_lists(struct stage *s)
{
    put(s, "/1.xml",
        LIST(FROM("01") UNTIL("03"), CHANGE("a", "02") CHANGE("b", "03")));
    put(s, "/2.xml", LIST(FROM("03") UNTIL("05"), CHANGE("c", "04")));
    put(s, "/3.xml", LIST(FROM("05") UNTIL("07"), CHANGE("d", "06")));
    put(s, "/4.xml", LIST(FROM("07"), CHANGE("e", "08")));
}

#endif
