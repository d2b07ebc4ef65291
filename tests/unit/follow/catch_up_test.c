/*
 * catch_up_test.c - a follower that is far behind reads closed lists, and then
 * goes on with the change memory.
 *
 * The source says that it has 100,000 entries. Its three closed lists end with
 * the entries 4, 8 and 12; one page of the change memory has the first 20: so
 * the coverages of messages show where each one came from.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tidings.h"
#include "proto/resourcesync/document_write.h"
#include "tests/clock.h"
#include "tests/support/gzip.h"
#include "tests/support/history.h"
#include "tests/support/site.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

#define EPOCH       "0123456789abcdef"
#define OTHER_EPOCH "fedcba9876543210"
#define N_LISTS     3
#define LENGTH      4
#define LIST_MAX    ((size_t)64 << 20) /* LIST_READER_LIST_MAX */

struct stage {
    struct site *site;
    struct history history;
    struct td_client *client;
    struct td_follow_options options;
    const char *after;
    uint64_t until;
    struct td_follower *closes; /* in on_message */
    struct td_follower *pauses; /* likewise, and ends td_run */
    bool is_paused;
    char seen[1024];  /* "0-4 4-8 ": coverages */
    char texts[8192]; /* of the changes */
    char digest[128];
    unsigned troubles;
    char trouble[1024];
};

static const char *
path_of(unsigned i)
{
    static char path[32];

    snprintf(path, sizeof(path), "/%u.xml", i);
    return path;
}

/* Of the entry `seq`, as history_init writes it. */
static int64_t
time_of(uint64_t seq)
{
    return 1767225600000000 + (int64_t)seq * 1000000;
}

/* The list `i`, with the entries of `h`, which may be another history. */
static void
write_list(struct buf *to, const struct history *h, unsigned i)
{
    uint64_t after = (i - 1) * LENGTH;
    struct coverage covers = {.after = after,
                              .last = after + LENGTH,
                              .has_digest = true,
                              .digest = h->digests[after + LENGTH],
                              .now_us = DATETIME_NONE};
    const struct document_link prev = {
        .rel = "prev", .href = SLICE("/p.xml"), .digest = &h->digests[after]};
    const struct document_head head = {.root = DOCUMENT_URLSET,
                                       .capability = CAP_CHANGELIST,
                                       .links = &prev,
                                       .n_links = i > 1,
                                       .from_us = time_of(after),
                                       .until_us = time_of(after + LENGTH),
                                       .coverage = &covers};

    snprintf(covers.epoch, sizeof(covers.epoch), "%s", h->epoch);
    document_header(to, &head);
    for (uint64_t seq = after + 1; seq <= after + LENGTH; seq++)
        buf_add(to, h->fragments[seq], h->sizes[seq]);
    document_footer(to, DOCUMENT_URLSET);
}

static void
put_text(struct stage *s, unsigned i, struct slice text)
{
    struct buf packed;

    buf_init(&packed, SIZE_MAX / 2);
    gzip_add(&packed, text);
    site_put(s->site, path_of(i), "application/xml", buf_slice(&packed));
    site_headers(s->site, path_of(i), "Content-Encoding: gzip");
    buf_fini(&packed);
}

static void
put_list(struct stage *s, const struct history *h, unsigned i)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    write_list(&text, h, i);
    put_text(s, i, buf_slice(&text));
    buf_fini(&text);
}

/* Puts list 2 with `from` replaced by `to` at its `nth` place; `size` 0: cut
 * off there. */
static void
spoil_list(struct stage *s, const char *from, const char *to, unsigned nth)
{
    struct buf text, spoilt;
    const char *at;

    buf_init(&text, 1 << 20);
    buf_init(&spoilt, 1 << 20);
    write_list(&text, &s->history, 2);
    BUF_ADD(&text, "\0");
    at = text.data;
    while (nth-- > 0) {
        at = strstr(at + 1, from);
        assert_non_null(at);
    }
    buf_add(&spoilt, text.data, (size_t)(at - text.data));
    buf_add_text(&spoilt, to);
    buf_add_text(&spoilt, at + strlen(from));
    put_text(s, 2, buf_slice(&spoilt));
    buf_fini(&spoilt);
    buf_fini(&text);
}

/* Puts a document that names /FIRST.xml to /LAST.xml. */
static void
put_archive(struct stage *s, const char *path, const char *root,
            const char *entry, const char *name, unsigned first, unsigned last)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    buf_add_format(&text,
                   "<%s xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" "
                   "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"
                   "<rs:md capability=\"changelist-archive\"/>",
                   root);
    for (unsigned i = first; i <= last; i++)
        buf_add_format(&text,
                       "<%s><loc>%s%u.xml</loc>"
                       "<rs:md from=\"2026-01-01T00:00:00Z\" "
                       "until=\"2026-01-02T00:00:00Z\"/></%s>",
                       entry, name, i, entry);
    buf_add_format(&text, "</%s>", root);
    site_put(s->site, path, "application/xml", buf_slice(&text));
    buf_fini(&text);
}

static void
put_description(struct stage *s, unsigned last)
{
    const char *url = site_url(s->site);

    site_putf(s->site, "/news", "application/json",
              "{\"name\":\"news\",\"position\":\"" EPOCH "-%u\",\"links\":["
              "{\"rel\":\"urn:tidings:1:memory\",\"href\":\"%s/changes\"},"
              "{\"rel\":\"changelist\",\"href\":\"%s/c.xml\"},"
              "{\"rel\":\"changelist-archive\",\"href\":\"%s/archive.xml\"}]}",
              last, url, url, url);
}

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->site = site_new();
    s->client = td_open();
    assert_non_null(s->client);
    history_init(&s->history, EPOCH);
    s->options.transports = TD_LONG_POLL | TD_POLL;
    s->after = "0";
    s->until = 20;
    put_description(s, 100000);
    put_archive(s, "/archive.xml", "urlset", "url", "", 1, N_LISTS);
    for (unsigned i = 1; i <= N_LISTS; i++)
        put_list(s, &s->history, i);
    *state = s;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    clock_skip_waits(NULL, NULL);
    td_close(s->client);
    site_free(s->site);
    history_fini(&s->history);
    free(s);
    return 0;
}

static int
on_message(const struct td_message *message, void *user)
{
    struct stage *s = user;
    size_t used = strlen(s->seen);
    char position[64];

    if (message->last == message->after)
        return 0;
    assert_false(s->is_paused);
    assert_string_equal(message->set, "news");
    snprintf(s->seen + used, sizeof(s->seen) - used, "%llu-%llu ",
             (unsigned long long)message->after,
             (unsigned long long)message->last);
    snprintf(position, sizeof(position), EPOCH "-%llu",
             (unsigned long long)message->last);
    assert_string_equal(message->position, position);
    assert_false(message->is_unproven); /* filters are ours here */
    snprintf(s->digest, sizeof(s->digest), "%s",
             message->digest ? message->digest : "");
    if (s->closes) {
        td_follower_close(s->closes);
        return 0;
    }
    if (s->pauses) {
        td_follower_pause(s->pauses);
        s->is_paused = true;
        td_stop(s->client);
    }
    for (size_t i = 0; i < message->n_changes; i++) {
        const struct td_change *change = &message->changes[i];

        assert_int_equal(strlen(change->text), change->text_size);
        if (!s->options.n_filters)
            assert_int_equal(change->seq, message->after + 1 + i);
        used = strlen(s->texts);
        snprintf(s->texts + used, sizeof(s->texts) - used, "%s\n",
                 change->text);
    }
    return message->last >= s->until;
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct stage *s = user;

    (void)pause_ms;
    s->troubles++;
    snprintf(s->trouble, sizeof(s->trouble), "%s", why);
}

static enum td_status
follow(struct stage *s)
{
    site_put(s->site, "/changes", "application/xml",
             history_xml(&s->history, 0, 20));
    s->options.after = s->after;
    s->options.on_trouble = on_trouble;
    clock_skip_waits(transfers_none, NULL);
    return td_follow(s->client, site_link(s->site, "/news"), &s->options,
                     on_message, s);
}

FIXTURE(set_stage, clear_stage);

/* the texts are those of the stream. */
TEST(closed_lists_say_what_the_change_memory_says)
{
    static const enum td_form forms[] = {TD_JSON, TD_XML};

    for (size_t i = 0; i < 2; i++) {
        struct stage *lists, *memory;
        void *stages[2];

        set_stage(&stages[0]);
        set_stage(&stages[1]);
        lists = stages[0];
        memory = stages[1];
        lists->options.form = memory->options.form = forms[i];
        put_description(memory, 20); /* not far enough behind */
        assert_int_equal(follow(lists), TD_STOPPED);
        assert_int_equal(follow(memory), TD_STOPPED);

        assert_string_equal(lists->seen, "0-4 4-8 8-12 12-20 ");
        assert_string_equal(memory->seen, "0-20 ");
        assert_string_equal(lists->texts, memory->texts);
        assert_string_equal(lists->digest, memory->digest);
        assert_int_equal(site_count(memory->site, "/archive.xml"), 0);
        assert_string_equal(
            site_header(lists->site, "/2.xml", 0, "Accept-Encoding"), "gzip");
        clear_stage(&stages[0]);
        clear_stage(&stages[1]);
    }
}

/* What a row does to the source, or to the follower. */

static void
as_it_is(struct stage *s)
{
    (void)s;
}

static void
begin_inside(struct stage *s)
{
    s->after = EPOCH "-6";
}

static void
begin_between(struct stage *s)
{
    s->after = EPOCH "-8";
}

static void
begin_behind(struct stage *s)
{
    s->after = EPOCH "-12";
}

static void
forbid_lists(struct stage *s)
{
    s->options.transports = TD_LONG_POLL;
}

static void
remove_archive(struct stage *s)
{
    site_delete(s->site, "/archive.xml");
}

static void
index_archive(struct stage *s)
{
    put_archive(s, "/archive.xml", "sitemapindex", "sitemap", "part", 1, 2);
    put_archive(s, "/part1.xml", "urlset", "url", "", 1, 2);
    put_archive(s, "/part2.xml", "urlset", "url", "", 3, 3);
}

static void
remove_part(struct stage *s)
{
    index_archive(s);
    site_delete(s->site, "/part2.xml");
}

static void
remove_list(struct stage *s)
{
    site_delete(s->site, "/2.xml");
}

static void
remove_first(struct stage *s)
{
    site_delete(s->site, "/1.xml");
}

static void
repeat_list(struct stage *s)
{
    site_status(s->site, "/2.xml", 302, "Location: /3.xml", 0);
}

static void
send_plain(struct stage *s)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    write_list(&text, &s->history, 2);
    site_put(s->site, "/2.xml", "application/xml", buf_slice(&text));
    site_headers(s->site, "/2.xml", NULL);
    buf_fini(&text);
}

static void
put_bomb(struct stage *s)
{
    struct buf bomb;

    buf_init(&bomb, SIZE_MAX / 2);
    gzip_add_bomb(&bomb, ' ', LIST_MAX + 1);
    site_put(s->site, "/2.xml", "application/xml", buf_slice(&bomb));
    buf_fini(&bomb);
}

static void
open_list(struct stage *s)
{
    spoil_list(s, " until=\"2026-01-01T00:00:08.000000Z\"", "", 1);
}

static void
drop_digest_before(struct stage *s)
{
    spoil_list(s, "rel=\"prev\"", "rel=\"up\"", 1);
}

static void
write_otherwise(struct stage *s)
{
    spoil_list(s, "<url><loc>", "<url> <loc>", 3);
}

/* Entry 7 of `h` becomes `text`, with the digests that belong to it. */
static void
rewrite_entry(struct history *h, const char *text)
{
    free(h->fragments[7]);
    h->fragments[7] = strdup(text);
    assert_non_null(h->fragments[7]);
    h->sizes[7] = strlen(text);
    for (unsigned seq = 7; seq <= HISTORY_MAX; seq++) {
        h->digests[seq] = h->digests[seq - 1];
        digest_add(&h->digests[seq],
                   (struct slice){h->fragments[seq], h->sizes[seq]});
    }
}

#define ENTRY_7(loc, inside)                                          \
    "<url><loc>" loc "</loc><rs:md change=\"created\""                \
    " datetime=\"2026-01-01T00:00:07.000000Z\" td:seq=\"7\"/>" inside \
    "</url>\n"
#define TITLED(title)                                        \
    "<rs:ln rel=\"describedby\" href=\"http://r.example/d\"" \
    " xmlns:x=\"urn:x\" x:title=\"" title "\"/>"
#define LOC_7 "http://example.com/r?n=7&amp;x=1"

/* List 2 of a broker that accepted other bytes. */
static void
put_entry(struct stage *s, const char *text)
{
    struct history other;

    history_init(&other, EPOCH);
    rewrite_entry(&other, text);
    put_list(s, &other, 2);
    history_fini(&other);
}

static void
write_in_letters(struct stage *s)
{
    rewrite_entry(&s->history,
                  ENTRY_7(LOC_7, TITLED("Z\xc3\xbcrich, \xe6\x9d\xb1")));
    for (unsigned i = 1; i <= N_LISTS; i++)
        put_list(s, &s->history, i);
}

static void
break_head(struct stage *s)
{
    spoil_list(s, "<rs:md ", "<rs:md <", 1);
}

static void
call_it_otherwise(struct stage *s)
{
    spoil_list(s, "\"changelist\"", "\"resourcelist\"", 1);
}

static void
drop_epoch(struct stage *s)
{
    spoil_list(s, "td:epoch=\"" EPOCH "\"", "", 1);
}

static void
drop_digest(struct stage *s)
{
    spoil_list(s, " td:digest=", " td:was=", 2);
}

static void
drop_entries(struct stage *s)
{
    put_text(s, 2, SLICE("<urlset>\n</urlset>\n"));
}

static void
alter_entry(struct stage *s)
{
    spoil_list(s, "n=7", "n=8", 1);
}

static void
leave_out_entry(struct stage *s)
{
    char line[512];

    snprintf(line, sizeof(line), "%.*s", (int)s->history.sizes[6],
             s->history.fragments[6]);
    spoil_list(s, line, "", 1);
}

static void
leave_out_last(struct stage *s)
{
    char line[512];

    snprintf(line, sizeof(line), "%.*s", (int)s->history.sizes[8],
             s->history.fragments[8]);
    spoil_list(s, line, "", 1);
}

static void
break_off(struct stage *s)
{
    spoil_list(s, "</urlset>", "", 1);
}

static void
cut_gzip(struct stage *s)
{
    put_text(s, 2, SLICE("x"));
    site_put(s->site, "/2.xml", "application/xml",
             SLICE("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b"));
}

static void
cut_connection(struct stage *s)
{
    site_cut(s->site, "/2.xml", 100);
}

static void
break_server(struct stage *s)
{
    site_status(s->site, "/2.xml", 503, NULL, 1);
}

static void
put_other_history(struct stage *s)
{
    struct history other;

    history_init(&other, OTHER_EPOCH);
    snprintf(other.epoch, sizeof(other.epoch), "%s", EPOCH);
    put_list(s, &other, 2);
    history_fini(&other);
}

static void
put_other_epoch(struct stage *s)
{
    struct history other;

    history_init(&other, OTHER_EPOCH);
    put_list(s, &other, 1);
    history_fini(&other);
    s->after = EPOCH "-0";
}

static void
forge_beginning(struct stage *s)
{
    struct history other;

    history_init(&other, OTHER_EPOCH);
    snprintf(other.epoch, sizeof(other.epoch), "%s", EPOCH);
    put_list(s, &other, 1);
    history_fini(&other);
}

static const struct row {
    const char *what;
    void (*change)(struct stage *s);
    const char *seen;
    enum td_status rc;
    const char *problem; /* is in it; NULL: none */
    unsigned troubles;
    const char *trouble; /* is in it */
    const char *entry;   /* the seventh, of list 2; NULL: as it is */
} rows[] = {
    {"lists, then the change memory", as_it_is, "0-4 4-8 8-12 12-20 ",
     TD_STOPPED},
    {"from inside of a list", begin_inside, "6-8 8-12 12-20 ", TD_STOPPED},
    {"from its end", begin_between, "8-12 12-20 ", TD_STOPPED},
    {"from behind all of them", begin_behind, "12-20 ", TD_STOPPED},
    {"lists are polls", forbid_lists, "0-20 ", TD_STOPPED},
    {"letters beyond ASCII", write_in_letters, "0-4 4-8 8-12 12-20 ",
     TD_STOPPED},
    {"an index of archives", index_archive, "0-4 4-8 8-12 12-20 ", TD_STOPPED},
    {"a server that does not pack", send_plain, "0-4 4-8 8-12 12-20 ",
     TD_STOPPED},

    /* The follower leaves a list that it cannot use to the change memory. */
    {"no archive", remove_archive, "0-20 ", TD_STOPPED, NULL, 1, "404"},
    {"an archive that lacks a part", remove_part, "0-20 ", TD_STOPPED, NULL, 1,
     "/part2.xml: 404"},
    {"a list that retention has removed", remove_list, "0-4 4-20 ", TD_STOPPED,
     NULL, 1, "/2.xml: 404"},
    {"the first list removed", remove_first, "0-20 ", TD_STOPPED, NULL, 1,
     "/1.xml: 404"},
    {"a list that does not join", repeat_list, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "/2.xml: it does not continue at 4"},
    {"a bomb", put_bomb, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "/2.xml: it unpacks to more than 67108864 bytes"},
    {"a list that is open", open_list, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "no closed Change List"},
    {"a list of resources", call_it_otherwise, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "it is no Change List"},
    {"a list without an epoch", drop_epoch, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "it is no Change List of Tidings"},
    {"a list without a digest", drop_digest, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "it is no Change List of Tidings"},
    {"a list without entries", drop_entries, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "line 1: expected \"<?xml version"},
    {"a head that is no XML", break_head, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "line 4: expected"},
    {"no digest before it", drop_digest_before, "0-4 4-20 ", TD_STOPPED, NULL,
     1, "it has no link prev with a td:digest"},
    {"an entry in another form", write_otherwise, "0-4 4-20 ", TD_STOPPED, NULL,
     1, "line 7: what follows entry 6 is no entry as Tidings write them"},
    {"an entry that no broker accepts", as_it_is, "0-4 4-20 ", TD_STOPPED, NULL,
     1, "another form", ENTRY_7("%ttp://example.com/r?n=7", "")},
    {"a control character", as_it_is, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "no plain text", ENTRY_7(LOC_7, TITLED("a\x01"))},
    {"half a pair of UTF-16", as_it_is, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "no plain text", ENTRY_7(LOC_7, TITLED("\xed\xa0\x80"))},
    {"no character of Unicode", as_it_is, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "no plain text", ENTRY_7(LOC_7, TITLED("\xef\xbf\xbe"))},
    {"half a character", as_it_is, "0-4 4-20 ", TD_STOPPED, NULL, 1,
     "no plain text", ENTRY_7(LOC_7, TITLED("\xe6\x9d"))},

    /* The follower asks again after a fault that passes. */
    {"a connection that breaks", cut_connection, "0-4 4-8 8-12 12-20 ",
     TD_STOPPED, NULL, 1, "/2.xml"},
    {"a server that cannot now", break_server, "0-4 4-8 8-12 12-20 ",
     TD_STOPPED, NULL, 1, "/2.xml: 503"},

    /* A list that contradicts itself, or the follower's digest, ends it. */
    {"an altered entry", alter_entry, "0-4 ", TD_BROKEN,
     "/2.xml: an entry from 5 to 8 was altered: expected td:digest"},
    {"a missing entry", leave_out_entry, "0-4 ", TD_BROKEN,
     "/2.xml: line 6: expected entry 6, found entry 7"},
    {"a list shorter than it says", leave_out_last, "0-4 ", TD_BROKEN,
     "/2.xml: it says that its last entry is 8, but ends with entry 7"},
    {"a list without its end", break_off, "0-4 ", TD_BROKEN,
     "/2.xml: line 9: neither an entry nor the end"},
    {"damaged gzip", cut_gzip, "0-4 ", TD_BROKEN, "/2.xml: "},
    {"another history", put_other_history, "0-4 ", TD_GONE,
     "/2.xml: it is of another history: the follower has other entries up to "
     "4"},
    {"another log", put_other_epoch, "", TD_GONE,
     "/1.xml: it is of another history: the follower has other entries up to "
     "0"},
    {"a forged beginning", forge_beginning, "", TD_BROKEN,
     "/1.xml: an entry from 1 to 4 was altered"},
};

/* nothing of a list is handed over that is not proven; R-344: no hole
 * and no repeat between lists and change memory; R-345. */
TEST(what_lists_offer_is_used_as_far_as_it_is_proven)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct stage *s;
        void *stage;
        enum td_status rc;

        set_stage(&stage);
        s = stage;
        row->change(s);
        if (row->entry)
            put_entry(s, row->entry);
        rc = follow(s);

        if (rc != row->rc || strcmp(s->seen, row->seen) ||
            s->troubles != row->troubles ||
            !strstr(s->trouble, row->trouble ? row->trouble : "") ||
            !strstr(td_problem(s->client), row->problem ? row->problem : ""))
            fail_msg("%s: it ended with %d, \"%s\": \"%s\", %u troubles, the "
                     "last \"%s\"",
                     row->what, rc, s->seen, td_problem(s->client), s->troubles,
                     s->trouble);
        clear_stage(&stage);
    }
}

/* With filters each message covers what it did not hand over. */
TEST(filters_select_in_closed_lists)
{
    static const struct td_filter filters[] = {
        {"prefix", "http://example.com/r?n=7"}};
    struct stage *s = *state;

    s->options.filters = filters;
    s->options.n_filters = 1;
    s->until = 12;
    assert_int_equal(follow(s), TD_STOPPED);

    assert_string_equal(s->seen, "0-4 4-8 8-12 ");
    assert_non_null(strstr(s->texts, "\"seq\":7}\n"));
    assert_int_equal(strlen(s->texts), strcspn(s->texts, "\n") + 1);
}

/* With many lists the search halves what is left. */
TEST(a_search_reads_few_lists)
{
    struct stage *s = *state;

    put_description(s, 25012); /* so that the first guess is right */
    s->after = EPOCH "-11";
    assert_int_equal(follow(s), TD_STOPPED);

    assert_string_equal(s->seen, "11-12 12-20 ");
    assert_int_equal(site_count(s->site, "/2.xml"), 1);
}

/* The message stays while the callback runs, though workers go on. */
TEST(closing_it_in_a_message_ends_all_work)
{
    struct stage *s = *state;

    s->options.after = "0";
    assert_int_equal(td_follower_open(s->client, site_link(s->site, "/news"),
                                      &s->options, on_message, s, &s->closes),
                     TD_OK);
    assert_int_equal(td_run(s->client), TD_OK);
    assert_string_equal(s->seen, "0-4 ");
}

static int
stop_by_message(const struct td_message *message, void *user)
{
    struct stage *s = user;

    if (message->last > message->after)
        td_stop(s->client);
    return 0;
}

/* Another follower of the handle goes on, and has its changes. */
TEST(a_pause_holds_lists_back)
{
    struct stage *s = *state;
    struct td_follower *other;

    s->options.after = "0";
    assert_int_equal(td_follower_open(s->client, site_link(s->site, "/news"),
                                      &s->options, on_message, s, &s->pauses),
                     TD_OK);
    assert_int_equal(td_run(s->client), TD_STOPPED);
    assert_string_equal(s->seen, "0-4 ");
    site_await(s->site, "/2.xml", 1);
    put_description(s, 20);
    site_put(s->site, "/changes", "application/xml",
             history_xml(&s->history, 0, 20));
    assert_int_equal(td_follower_open(s->client, site_link(s->site, "/news"),
                                      &s->options, stop_by_message, s, &other),
                     TD_OK);
    assert_int_equal(td_run(s->client), TD_STOPPED);
    td_follower_close(other);
    s->is_paused = false;
    td_follower_resume(s->pauses);
    assert_int_equal(td_run(s->client), TD_STOPPED);
    assert_string_equal(s->seen, "0-4 4-8 ");
    td_follower_close(s->pauses);
}
