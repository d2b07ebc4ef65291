#include "broker/sets/settings.h"

#include "broker/sets/json_members.h"
#include "broker/sets/peers.h"
#include "proto/http/websub.h"
#include "proto/number.h"
#include "proto/resourcesync/json.h"

/* The offset of a member; does not compile if it is not a `type`. */
#define AT(member, type)                                \
    _Generic(&((struct settings *)NULL)->member, type * \
             : offsetof(struct settings, member))

/* The kind of a value; in JSON a string, a number, an array of strings, true or
 * false. */
enum row_kind {
    ROW_TEXT,
    ROW_URL,
    ROW_NUMBER,
    ROW_KEEP,   /* a number, or a string */
    ROW_CHOICE, /* a string: a word of the option */
    ROW_FLAG,   /* true or false; without an option */
    ROW_UPSTREAM,
    ROW_HUBS
};

/* What a value is: for people, and in the shape of the JSON. */
static const struct {
    const char *value, *type;
} kinds[] = {
    [ROW_TEXT] = {"a string, such as \"News\"", "string"},
    [ROW_URL] = {"a string, such as \"https://example.org/about\"", "uri"},
    [ROW_NUMBER] = {"a number, such as 100", "number"},
    [ROW_KEEP] = {"a number, such as 7, or a string", "count|string"},
    [ROW_CHOICE] = {"a string, such as \"none\"", NULL},
    [ROW_FLAG] = {"true or false", "flag"},
    [ROW_UPSTREAM] = {"a string, such as \"https://example.org/topic\"", "uri"},
    [ROW_HUBS] = {"a list of strings, such as [\"https://hub.example/\"]",
                  "[uri]"},
};

/* `option` is the broker's option with kind, limits and default of a number. */
static const struct row {
    const char *name;
    enum row_kind kind;
    const char *option;
    size_t offset;
    size_t room; /* of a text */
} rows[] = {
    {"title", ROW_TEXT, NULL, offsetof(struct settings, title),
     SETTINGS_TITLE_MAX + 1},
    {"description", ROW_URL, NULL, offsetof(struct settings, description),
     SETTINGS_URL_MAX + 1},
    {"rotateEntries", ROW_NUMBER, "rotate-entries",
     AT(limits.entries, uint64_t)},
    {"rotateBytes", ROW_NUMBER, "rotate-bytes", AT(limits.bytes, uint64_t)},
    {"rotateAge", ROW_NUMBER, "rotate-age", AT(rotate_age_us, int64_t)},
    {"retainLists", ROW_NUMBER, "retain-lists", AT(retention.lists, uint64_t)},
    {"retainAge", ROW_NUMBER, "retain-age", AT(retention.age_us, int64_t)},
    {"resourceListEvery", ROW_NUMBER, "resource-list-every",
     AT(resource_list_every_us, int64_t)},
    {"resourceListKeep", ROW_KEEP, "resource-list-keep",
     AT(resource_list_keep, uint64_t)},
    {"content", ROW_CHOICE, "content", AT(content, enum content_mode)},
    {"contentVersions", ROW_KEEP, "content-versions",
     AT(content_versions, uint64_t)},
    {"resourceDumpEvery", ROW_NUMBER, "resource-dump-every",
     AT(resource_dump_every_us, int64_t)},
    {"resourceDumpKeep", ROW_KEEP, "resource-dump-keep",
     AT(resource_dump_keep, uint64_t)},
    {"private", ROW_FLAG, NULL, AT(is_private, bool)},
    {"noData", ROW_FLAG, NULL, AT(has_no_data, bool)},
    {"upstreamTopic", ROW_UPSTREAM},
    {"hubs", ROW_HUBS},
};

void
settings_start(struct settings *settings, const struct config *config)
{
    memset(settings, 0, sizeof(*settings));
    /* In struct config and here a number of any kind takes 64 bits. */
    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        if (rows[i].option)
            memcpy((char *)settings + rows[i].offset,
                   (const char *)config + config_option(rows[i].option)->offset,
                   rows[i].kind == ROW_CHOICE ? sizeof(unsigned)
                                              : sizeof(uint64_t));
}

void
settings_free(struct settings *settings)
{
    if (settings)
        peers_unref(settings->peers);
    free(settings);
}

/* Reading */

struct reading {
    struct settings *settings;
    bool is_change; /* null is allowed: resets the row */
    bool is_in_array;
    const struct row *row; /* of the value that is read */
};

static enum status
take_text(struct reading *r, struct slice text, struct problem *why)
{
    const struct row *row = r->row;
    char *to = (char *)r->settings + row->offset;

    if (text.size >= row->room)
        return problem(why, STATUS_INVALID, "%s: is longer than %zu bytes",
                       row->name, row->room - 1);
    if (row->kind == ROW_URL) {
        enum status rc = uri_check(text, row->name, why);

        if (rc)
            return rc;
        if (!slice_starts(text, "http://") && !slice_starts(text, "https://"))
            return problem(
                why, STATUS_INVALID,
                "%s: \"%s\" is not an http:// or https:// URL, such as "
                "https://example.org/about",
                row->name, problem_quote(text).text);
    }
    memcpy(to, text.data, text.size);
    to[text.size] = '\0';
    return STATUS_OK;
}

static enum status
take_option(struct reading *r, struct slice digits, struct problem *why)
{
    struct option option = *config_option(r->row->option);
    struct problem inner = {""};
    char text[64];
    enum status rc;

    option.offset = r->row->offset; /* in struct settings */
    snprintf(text, sizeof(text), "%.*s", SLICE_ARG(digits));
    if (digits.size >= sizeof(text))
        return problem(why, STATUS_INVALID, "%s: has too many digits",
                       r->row->name);
    rc = option_read(&option, text, r->settings, &inner);
    return rc ? problem(why, rc, "%s: %s", r->row->name, inner.text) : rc;
}

static enum status
take_peer(struct reading *r, struct slice url, struct problem *why)
{
    struct peers *peers = r->settings->peers;

    if (!peers) {
        peers = r->settings->peers = memory_new(1, sizeof(*peers));
        atomic_init(&peers->n_owners, 1);
    }
    if (r->row->kind == ROW_HUBS)
        return peers_add_hub(peers, url, why);
    if (websub_check_url(url, "upstreamTopic", why))
        return STATUS_INVALID;
    peers->upstream = slice_dup(url);
    return STATUS_OK;
}

static enum status
take_value(void *user, size_t i, enum json_event event, struct slice text,
           struct problem *why)
{
    struct reading *r = user;

    r->row = &rows[i];
    if (r->is_change && !r->is_in_array && event == JSON_OTHER &&
        slice_is(text, "null"))
        return STATUS_OK;
    r->settings->given |= 1u << i;
    switch (r->row->kind) {
    case ROW_TEXT:
    case ROW_URL:
        if (event == JSON_STRING)
            return take_text(r, text, why);
        break;
    case ROW_NUMBER:
    case ROW_KEEP:
    case ROW_CHOICE:
        if ((event == JSON_NUMBER && r->row->kind != ROW_CHOICE) ||
            (event == JSON_STRING && r->row->kind != ROW_NUMBER))
            return take_option(r, text, why);
        break;
    case ROW_FLAG:
        if (event != JSON_OTHER ||
            (!slice_is(text, "true") && !slice_is(text, "false")))
            break;
        *(bool *)((char *)r->settings + r->row->offset) =
            slice_is(text, "true");
        return STATUS_OK;
    case ROW_UPSTREAM:
        if (event == JSON_STRING)
            return take_peer(r, text, why);
        break;
    case ROW_HUBS:
        if (r->is_in_array && event == JSON_STRING)
            return take_peer(r, text, why);
        if (event == (r->is_in_array ? JSON_ARRAY_END : JSON_ARRAY)) {
            r->is_in_array = !r->is_in_array;
            return STATUS_OK;
        }
        break;
    }
    return problem(why, STATUS_INVALID, "%s: is %s", r->row->name,
                   kinds[r->row->kind].value);
}

static const struct json_members members = {
    .form = "settings are a JSON object, such as {\"title\":\"...\"}",
    .what = "setting of a set",
    .alias = {"upstream_topic", "upstreamTopic"},
    .rows = rows,
    .n = N_ELEMENTS(rows),
    .row_size = sizeof(rows[0]),
    .take = take_value,
};

enum status
settings_read(struct settings *settings, const struct config *config,
              struct slice text, bool is_change, struct problem *why)
{
    struct reading r = {.settings = settings, .is_change = is_change};

    settings_start(settings, config);
    return slice_without_spaces(text).size == 0 && !is_change
               ? STATUS_OK
               : json_members_read(&members, text, &r, &settings->named, why);
}

/* Writing */

/* A number, or the word for it. */
static void
write_number(struct buf *to, const char *at, const struct row *row)
{
    char seconds[SECONDS_SIZE_MAX];
    uint64_t number;

    memcpy(&number, at, sizeof(number));
    if (row->kind == ROW_KEEP && (number == 0 || number >= OPTION_KEEP_AGE))
        json_text(to, slice_of(option_keep_text(number).text));
    else if (config_option(row->option)->type == OPTION_SECONDS)
        buf_add(to, seconds, seconds_write(seconds, (int64_t)number));
    else
        buf_add_number(to, number);
}

static bool
flag_of(const struct settings *settings, const struct row *row)
{
    return *(const bool *)((const char *)settings + row->offset);
}

/* True if the settings in effect include the row. */
static bool
is_in_effect(const struct settings *settings, const struct row *row)
{
    const struct peers *peers = settings->peers;

    switch (row->kind) {
    case ROW_FLAG:
        return flag_of(settings, row);
    case ROW_UPSTREAM:
        return peers && peers->upstream;
    case ROW_HUBS:
        return peers && peers->n_hubs > 0;
    default: /* a text has none */
        return row->option != NULL;
    }
}

/* Appends *separator and the row as a member. */
static void
write_row(struct buf *to, const struct settings *settings,
          const struct row *row)
{
    const char *at = (const char *)settings + row->offset;
    const struct peers *peers = settings->peers;
    unsigned choice;

    json_separate(to, ",");
    buf_add_format(to, "\"%s\":", row->name);
    switch (row->kind) {
    case ROW_TEXT:
    case ROW_URL:
        json_text(to, slice_of(at));
        break;
    case ROW_NUMBER:
    case ROW_KEEP:
        write_number(to, at, row);
        break;
    case ROW_CHOICE:
        memcpy(&choice, at, sizeof(choice));
        json_text(to, option_word(config_option(row->option), choice));
        break;
    case ROW_FLAG:
        buf_add_text(to, flag_of(settings, row) ? "true" : "false");
        break;
    case ROW_UPSTREAM:
        json_text(to, slice_of(peers->upstream));
        break;
    case ROW_HUBS:
        buf_add_text(to, "[");
        for (unsigned i = 0; peers && i < peers->n_hubs; i++) {
            json_separate(to, ",");
            json_text(to, slice_of(peers->hubs[i]));
        }
        buf_add_text(to, "]");
        break;
    }
}

void
settings_write(struct buf *to, const struct settings *settings, bool all)
{
    BUF_ADD(to, "{");
    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        if (all ? is_in_effect(settings, &rows[i]) : settings->given & 1u << i)
            write_row(to, settings, &rows[i]);
    BUF_ADD(to, "}");
}

void
settings_merge(struct buf *to, const struct settings *before,
               const struct settings *change)
{
    BUF_ADD(to, "{");
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        const struct settings *from = change->named & 1u << i ? change : before;

        if (from->given & 1u << i)
            write_row(to, from, &rows[i]);
    }
    BUF_ADD(to, "}");
}

/* In a change null resets a setting. */
static void
write_shape(const struct json_shape *shape, struct buf *to)
{
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        const struct row *row = &rows[i];
        struct slice words = {NULL, 0};

        buf_add_format(to, "%s? ", row->name);
        if (row->kind == ROW_CHOICE)
            words = slice_of(config_option(row->option)->argument);
        else
            buf_add_text(to, kinds[row->kind].type);
        while (words.size > 0) {
            struct slice word = slice_take(&words, '|');

            buf_add_format(to, "'%.*s'%s", SLICE_ARG(word),
                           words.size > 0 ? "|" : "");
        }
        buf_add_text(to, shape == &settings_change_shape ? "|null" : "");
        if (row->option)
            buf_add_format(to, " (as --%s)", row->option);
        BUF_ADD(to, ", ");
    }
}

const struct json_shape settings_shape = {"Settings", "The settings of a set",
                                          .write = write_shape};

const struct json_shape settings_change_shape = {
    "SettingsChange", "Settings to change: a JSON Merge Patch (RFC 7396)",
    .write = write_shape};

uint64_t
retention_over(const struct retention *r, uint64_t n)
{
    return r->lists > 0 && n > r->lists ? n - r->lists : 0;
}

int64_t
retention_since_us(const struct retention *r)
{
    return r->age_us > 0 ? clock_now_us() - r->age_us : INT64_MIN;
}
