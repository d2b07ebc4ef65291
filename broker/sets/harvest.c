#include "broker/sets/harvest.h"

#include "broker/sets/json_members.h"
#include "proto/number.h"
#include "proto/shown_address.h"

enum row_kind { ROW_SOURCE, ROW_KIND, ROW_TEXT, ROW_TIME, ROW_NUMBER };

#define CONSENT "accept_deletions"

/* `otherwise` is the JSON of a member that is missing; NULL: it must be
 * there. "null": the member may be null. */
static const struct row {
    const char *name;
    enum row_kind kind;
    const char *otherwise;
    size_t offset; /* of an int64_t or uint64_t; 0: only the text has it */
} rows[] = {
    {"source", ROW_SOURCE, NULL, 0},
    {"kind", ROW_KIND, NULL, 0},
    {"complete_as_of", ROW_TIME, "null",
     offsetof(struct harvest, complete_as_of_us)},
    {"not_complete", ROW_TEXT, "null", 0},
    {"last_look", ROW_TIME, NULL, offsetof(struct harvest, last_look_us)},
    {"added", ROW_NUMBER, "0", 0},
    {"changed", ROW_NUMBER, "0", 0},
    {"deleted", ROW_NUMBER, "0", 0},
    {"held_back", ROW_NUMBER, "0", offsetof(struct harvest, held_back)},
    {"left_out", ROW_NUMBER, "0", offsetof(struct harvest, left_out)},
    {"left_out_example", ROW_TEXT, "null", 0},
    {"mended", ROW_NUMBER, "0", 0},
    {"dropped_links", ROW_NUMBER, "0", 0},
    {"every_s", ROW_NUMBER, "null", 0},
    {CONSENT, ROW_NUMBER, "0", offsetof(struct harvest, accept_deletions)},
};

static const char *const kinds[] = {"resourcesync", "sitemap", "text",
                                    "rss",          "atom",    "oai-pmh"};

#define A_TIME "2026-11-27T10:00:00Z"

struct reading {
    struct harvest harvest; /* without its text */
    struct buf text;
    unsigned named; /* a bit per row */
};

static void
add_name(struct buf *to, const struct row *row)
{
    buf_add_format(to, "%s\"%s\":", to->size > 0 ? "," : "{", row->name);
}

static enum status
take_value(void *user, size_t i, enum json_event event, struct slice text,
           struct problem *why)
{
    struct reading *r = user;
    const struct row *row = &rows[i];
    bool is_number = row->kind == ROW_NUMBER;
    char *place = (char *)&r->harvest + row->offset;
    char written[DATETIME_SIZE];
    uint64_t number;
    size_t kind = 0;
    char *shown;
    int64_t us;

    add_name(&r->text, row);
    if (event == JSON_OTHER && slice_is(text, "null") && row->otherwise &&
        !strcmp(row->otherwise, "null")) {
        BUF_ADD(&r->text, "null");
        return STATUS_OK;
    }
    if (event != (is_number ? JSON_NUMBER : JSON_STRING))
        return problem(why, STATUS_INVALID, "%s: is %s", row->name,
                       is_number ? "a number, such as 7"
                       : row->kind == ROW_TIME
                           ? "a string, such as \"" A_TIME "\""
                           : "a string, such as \"sitemap\"");
    switch (row->kind) {
    case ROW_NUMBER:
        if (!number_read(text, &number) || number > HARVEST_COUNT_MAX)
            return problem(why, STATUS_INVALID,
                           "%s: \"%s\" is not a count, such as 7", row->name,
                           problem_quote(text).text);
        if (row->offset)
            memcpy(place, &number, sizeof(number));
        buf_add_number(&r->text, number);
        return STATUS_OK;
    case ROW_TIME:
        if (datetime_read(text, &us))
            return problem(why, STATUS_INVALID,
                           "%s: \"%s\" is not a time, such as " A_TIME,
                           row->name, problem_quote(text).text);
        memcpy(place, &us, sizeof(us));
        datetime_write(written, us);
        json_text(&r->text, (struct slice){written, sizeof(written)});
        return STATUS_OK;
    case ROW_KIND:
        while (kind < N_ELEMENTS(kinds) && !slice_is(text, kinds[kind]))
            kind++;
        if (kind == N_ELEMENTS(kinds))
            return problem(why, STATUS_INVALID,
                           "kind: \"%s\" is not resourcesync, sitemap, text, "
                           "rss or atom",
                           problem_quote(text).text);
        break;
    case ROW_SOURCE:
    case ROW_TEXT:
        break;
    }
    /* Everybody who may read the set reads it. */
    shown = shown_address(slice_dup(text));
    json_text(&r->text, slice_of(shown));
    free(shown);
    return row->kind == ROW_SOURCE ? uri_check(text, row->name, why)
                                   : STATUS_OK;
}

static const struct json_members members = {
    .form = "a harvest report is a JSON object, such as "
            "{\"source\":\"...\"}",
    .what = "member of a harvest report",
    .rows = rows,
    .n = N_ELEMENTS(rows),
    .row_size = sizeof(rows[0]),
    .take = take_value,
};

/* A report may lack members; the broker writes all. */
static void
write_shape(const struct json_shape *shape, struct buf *to)
{
    static const char *const types[] = {
        [ROW_SOURCE] = "uri", [ROW_KIND] = "string",  [ROW_TEXT] = "string",
        [ROW_TIME] = "time",  [ROW_NUMBER] = "count",
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        const char *otherwise = rows[i].otherwise;
        bool may_lack = otherwise && shape == &harvest_report_shape;

        buf_add_format(to, "%s%s %s%s, ", rows[i].name, may_lack ? "?" : "",
                       types[rows[i].kind],
                       otherwise && !strcmp(otherwise, "null") ? "|null" : "");
    }
}

const struct json_shape harvest_shape = {
    "Harvest", "How a set stands to the source that it is harvested from",
    .write = write_shape};

const struct json_shape harvest_report_shape = {
    "HarvestReport", "The same, as a harvester reports it",
    .write = write_shape};

enum status
harvest_read(struct harvest **harvest, struct slice text, struct problem *why)
{
    struct reading r = {.harvest.complete_as_of_us = DATETIME_NONE,
                        .text.max = HARVEST_TEXT_MAX};
    struct harvest *h;
    enum status rc = json_members_read(&members, text, &r, &r.named, why);

    for (size_t i = 0; !rc && i < N_ELEMENTS(rows); i++) {
        if (r.named & 1u << i) /* else it is missing */
            continue;
        if (!rows[i].otherwise) {
            rc = problem(why, STATUS_INVALID, "%s: is missing", rows[i].name);
            break;
        }
        add_name(&r.text, &rows[i]);
        buf_add_text(&r.text, rows[i].otherwise);
    }
    BUF_ADD(&r.text, "}");
    if (!rc) {
        h = memory_room(sizeof(*h) + r.text.size);
        *h = r.harvest;
        atomic_init(&h->n_owners, 1);
        memcpy(h + 1, r.text.data, r.text.size);
        h->text = (struct slice){(const char *)(h + 1), r.text.size};
        *harvest = h;
    }
    buf_fini(&r.text);
    return rc;
}

/* A name in its quotes stands in no text: there a quote has a backslash. */
struct harvest *
harvest_with_consent(const struct harvest *harvest, uint64_t n)
{
    struct buf text = {.max = HARVEST_TEXT_MAX + 32};
    struct slice rest = harvest->text;
    struct harvest *h = NULL;

    slice_skip_past(&rest, "\"" CONSENT "\":");
    buf_add_slice(&text, slice_between(harvest->text.data, rest.data));
    buf_add_number(&text, n);
    slice_take_until(&rest, ",}");
    buf_add_slice(&text, rest);
    if (harvest_read(&h, buf_slice(&text), NULL))
        h = NULL; /* never: the text has been read before */
    buf_fini(&text);
    return h;
}

struct harvest *
harvest_ref(struct harvest *h)
{
    /* Relaxed: the caller has a reference, or the lock under which it is
     * lent. */
    if (h)
        add_relaxed(&h->n_owners, 1);
    return h;
}

void
harvest_unref(struct harvest *h)
{
    /* Orders the reads of each owner before the free of the last one. */
    if (h &&
        atomic_fetch_sub_explicit(&h->n_owners, 1, memory_order_acq_rel) == 1)
        free(h);
}
