#include "proto/resourcesync/change_filter.h"

#include "proto/ascii.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/fragment.h"
#include "proto/resourcesync/vocab.h"
#include "proto/utf8.h"

/* What a value of each name must look like */

static bool
is_change(struct slice text)
{
    enum change_kind kind;

    return !change_kind_of(text, &kind);
}

static bool
is_visible(uint32_t c)
{
    return c != ' ' && !utf8_is_control(c);
}

/* Could it stand in a loc or a tag: valid UTF-8 without white space and control
 * characters? */
static bool
is_word(struct slice text)
{
    return text.size > 0 && utf8_is_text(text, is_visible);
}

static bool
is_type(struct slice text)
{
    const char *slash =
        text.size > 0 ? memchr(text.data, '/', text.size) : NULL;
    struct slice type;

    if (!is_media_type(text) || memchr(text.data, ';', text.size))
        return false;
    /* A star is a token's character: so it must be looked for. */
    type = slice_between(text.data, slash);
    return !memchr(text.data, '*', text.size) || slice_is(text, "*/*") ||
           (!memchr(type.data, '*', type.size) && text.size == type.size + 2 &&
            slash[1] == '*');
}

static bool
is_tag(struct slice text)
{
    return is_word(text) && text.size <= TAG_MAX;
}

static bool
is_no(struct slice text)
{
    return slice_is(text, "no");
}

/* One row per name, in the order of the text; with what is said of a value that
 * is not so. */
static const struct row {
    const char *name;
    bool (*is_good)(struct slice value);
    const char *refusal;
} rows[FILTER_NAMES] = {
    [FILTER_CHANGE] = {"change", is_change,
                       "change: not created, updated or deleted"},
    [FILTER_PREFIX] = {"prefix", is_word,
                       "prefix: empty, or with white space, a control "
                       "character or invalid UTF-8"},
    [FILTER_TYPE] = {"type", is_type,
                     "type: not TYPE/SUBTYPE, TYPE/* or */*, without "
                     "parameters"},
    [FILTER_TAG] = {"tag", is_tag,
                    "tag: not 1 to 128 bytes of UTF-8 without white space and "
                    "control characters"},
    [FILTER_DATA] = {"data", is_no, "data: only \"no\" is known"},
};

static const struct row *
row_of(struct slice name)
{
    for (size_t i = 0; i < FILTER_NAMES; i++)
        if (slice_is(name, rows[i].name))
            return &rows[i];
    return NULL;
}

bool
filter_is_name(struct slice name)
{
    return row_of(name);
}

/* Adding */

/* True if `c` needs no escape in a query; "+" does: some take it for a space.
 */
static bool
is_plain(char c)
{
    return ascii_is_alnum(c) || (c && strchr("-._~!$'()*,:@/?=", c));
}

static struct slice
raw_of(const struct filter *f, const struct filter_value *value)
{
    return (struct slice){f->raw + value->at, value->size};
}

static struct slice
escaped_of(const struct filter *f, const struct filter_value *value)
{
    return (struct slice){f->escaped + value->escaped_at, value->escaped_size};
}

enum status
filter_add(struct filter *f, struct slice name, struct slice value,
           struct problem *why)
{
    const struct row *row = row_of(name);
    size_t kind, size, at;
    struct filter_value new = {.at = f->raw_size, .size = 0}, *v;

    if (!row)
        return problem(why, STATUS_MALFORMED,
                       "%s: no filter; change, prefix, type, tag and data "
                       "are",
                       problem_quote(name).text);
    if (!row->is_good(value))
        return problem_quoting(why, STATUS_MALFORMED, row->refusal, value);

    kind = (size_t)(row - rows);
    v = f->values[kind];
    size = name.size + 2; /* "NAME=VALUE&" */
    for (size_t i = 0; i < value.size; i++)
        size += is_plain(value.data[i]) ? 1 : 3;
    if (f->encoded_size + size > FILTER_TEXT_MAX)
        return problem(why, STATUS_MALFORMED,
                       "%s: more than %d bytes of filters, percent-encoded",
                       row->name, FILTER_TEXT_MAX);
    for (size_t i = 0; i < value.size; i++)
        f->raw[new.at + i] =
            kind == FILTER_TYPE ? ascii_lower(value.data[i]) : value.data[i];
    new.size = (uint16_t)value.size;
    at = f->n[kind]; /* the values are in order, none twice */
    while (at > 0 && slice_compare(raw_of(f, &new), raw_of(f, &v[at - 1])) < 0)
        at--;
    if (at > 0 && slice_equal(raw_of(f, &v[at - 1]), raw_of(f, &new)))
        return STATUS_OK;
    if (f->n[kind] == FILTER_VALUES_MAX)
        return problem(why, STATUS_MALFORMED, "%s: more than %d values",
                       row->name, FILTER_VALUES_MAX);
    memmove(&v[at + 1], &v[at], (f->n[kind]++ - at) * sizeof(new));
    v[at] = new;
    f->raw_size = (uint16_t)(f->raw_size + value.size);
    f->encoded_size = (uint16_t)(f->encoded_size + size);
    return STATUS_OK;
}

/* Sealing */

/* Does whatever `value` lets through pass `other`, too? */
static bool
includes_value(size_t kind, struct slice other, struct slice value)
{
    if (kind == FILTER_TYPE) {
        if (slice_is(other, "*/*"))
            return true;
        if (other.data[other.size - 1] != '*')
            return false;
        other.size--;
    } else if (kind != FILTER_PREFIX) {
        return false;
    }
    return value.size >= other.size &&
           !memcmp(value.data, other.data, other.size);
}

static void
add_text(struct filter *f, const char *name, struct slice value)
{
    char *to = f->text + f->text_size;
    size_t name_size = strlen(name);

    if (f->text_size > 0)
        *to++ = '&';
    memcpy(to, name, name_size);
    to += name_size;
    *to++ = '=';
    for (size_t i = 0; i < value.size; i++)
        if (is_plain(value.data[i]))
            *to++ = value.data[i];
        else
            to = uri_put_escape(to, value.data[i]);
    f->text_size = (uint16_t)(to - f->text);
}

enum status
filter_seal(struct filter *f, struct problem *why)
{
    struct buf escaped = {.max = sizeof(f->escaped)};
    enum status rc;

    /* All three kinds of change are no filter. */
    if (f->n[FILTER_CHANGE] == 3)
        f->n[FILTER_CHANGE] = 0;
    f->text_size = 0;
    for (size_t kind = 0; kind < FILTER_NAMES; kind++) {
        struct filter_value *values = f->values[kind];
        struct filter_value kept[FILTER_VALUES_MAX];
        uint8_t n = 0;

        /* Drops the values that another one includes. No two include each
         * other: filter_add takes none twice. */
        for (size_t i = 0; i < f->n[kind]; i++) {
            bool is_needed = true;

            for (size_t k = 0; k < f->n[kind] && is_needed; k++)
                is_needed =
                    k == i || !includes_value(kind, raw_of(f, &values[k]),
                                              raw_of(f, &values[i]));
            if (is_needed)
                kept[n++] = values[i];
        }
        memcpy(values, kept, n * sizeof(kept[0]));
        f->n[kind] = n;
        for (size_t i = 0; i < n; i++) {
            struct filter_value *v = &values[i];
            struct slice raw = raw_of(f, v);

            add_text(f, rows[kind].name, raw);
            if (kind == FILTER_TYPE && raw.data[raw.size - 1] == '*')
                raw.size = slice_is(raw, "*/*") ? 0 : raw.size - 1;
            v->escaped_at = (uint16_t)escaped.size;
            xml_escape(&escaped, raw);
            v->escaped_size = (uint16_t)(escaped.size - v->escaped_at);
        }
    }
    if (escaped.size > 0)
        memcpy(f->escaped, escaped.data, escaped.size);
    rc = problem_buf(why, &escaped, "the filter");
    buf_fini(&escaped);
    return rc;
}

/* Queries */

/* The next parameter, as it stands. */
static bool
next_parameter(struct slice *rest, struct slice *name, struct slice *value)
{
    if (rest->size == 0)
        return false;
    *value = slice_take(rest, '&');
    *name = slice_take(value, '=');
    return true;
}

static enum status
decode_value(struct slice name, struct slice *value, char *to,
             struct problem *why)
{
    long size = uri_decode(*value, to);

    if (size < 0)
        return problem(why, STATUS_MALFORMED,
                       "%s: a bad escape in the query: \"%s\"",
                       problem_quote(name).text, problem_quote(*value).text);
    for (long i = 0; i < size; i++)
        if (to[i] == ' ')
            to[i] = '+';
    *value = (struct slice){to, (size_t)size};
    return STATUS_OK;
}

enum status
filter_parameter(struct slice query, const char *name, char *to,
                 struct slice *value, bool *is_there, struct problem *why)
{
    struct slice found;

    *is_there = false;
    while (next_parameter(&query, &found, value))
        if (slice_is(found, name)) {
            *is_there = true;
            return decode_value(found, value, to, why);
        }
    return STATUS_OK;
}

enum status
filter_read(struct filter *f, struct slice query, struct problem *why)
{
    struct slice name, value;
    /* Larger than any valid value, so that its size is the fault. */
    char decoded[3 * FILTER_TEXT_MAX];
    enum status rc = STATUS_OK;

    memset(f, 0, sizeof(*f));
    while (!rc && next_parameter(&query, &name, &value)) {
        if (!row_of(name))
            continue;
        if (value.size > sizeof(decoded))
            rc = problem(why, STATUS_MALFORMED,
                         "%s: more than %d bytes of filters, percent-encoded",
                         row_of(name)->name, FILTER_TEXT_MAX);
        else
            rc = decode_value(name, &value, decoded, why);
        if (!rc)
            rc = filter_add(f, name, value, why);
    }
    return rc ? rc : filter_seal(f, why);
}

/* Matching */

static bool
has_kind(const struct filter *f, const char *fragment, uint32_t stamp)
{
    enum change_kind kind = fragment_kind(fragment, stamp);

    for (size_t i = 0; i < f->n[FILTER_CHANGE]; i++)
        if (f->raw[f->values[FILTER_CHANGE][i].at] ==
            change_kind_names[kind][0])
            return true;
    return false;
}

/* An escaped prefix has no "<", so it cannot reach beyond the loc. */
static bool
has_prefix(const struct filter *f, struct slice loc)
{
    for (size_t i = 0; i < f->n[FILTER_PREFIX]; i++) {
        struct slice prefix = escaped_of(f, &f->values[FILTER_PREFIX][i]);

        if (loc.size >= prefix.size &&
            !memcmp(loc.data, prefix.data, prefix.size))
            return true;
    }
    return false;
}

static bool
has_type(const struct filter *f, struct slice type)
{
    for (size_t i = 0; type.size > 0 && i < f->n[FILTER_TYPE]; i++) {
        struct slice wanted = escaped_of(f, &f->values[FILTER_TYPE][i]);
        struct slice rest;

        if (type.size < wanted.size ||
            strncasecmp(type.data, wanted.data, wanted.size))
            continue;
        rest = slice_from(type, wanted.size);
        /* "image/" or "" of a type with a star: any that begins so. */
        if (wanted.size == 0 || wanted.data[wanted.size - 1] == '/')
            return true;
        /* A type ends where its parameters begin: ";" or white space, of which
         * a tab stands as a reference. The ";" of another reference is not met
         * here, because what was compared before it has it too. */
        if (rest.size == 0 || rest.data[0] == ';' || rest.data[0] == ' ' ||
            slice_starts(rest, "&#9;"))
            return true;
    }
    return false;
}

static bool
has_tag(const struct filter *f, struct slice tags)
{
    while (tags.size > 0) {
        struct slice tag = slice_take(&tags, ' ');

        for (size_t i = 0; i < f->n[FILTER_TAG]; i++)
            if (slice_equal(tag, escaped_of(f, &f->values[FILTER_TAG][i])))
                return true;
    }
    return false;
}

bool
filter_passes(const struct filter *f, struct slice fragment, uint32_t stamp)
{
    struct slice type, tags;

    if (f->n[FILTER_CHANGE] > 0 && !has_kind(f, fragment.data, stamp))
        return false;
    if (f->n[FILTER_PREFIX] > 0 && !has_prefix(f, fragment_from_loc(fragment)))
        return false;
    if (f->n[FILTER_TYPE] == 0 && f->n[FILTER_TAG] == 0)
        return true;
    fragment_labels(fragment, stamp, &type, &tags);
    return (f->n[FILTER_TYPE] == 0 || has_type(f, type)) &&
           (f->n[FILTER_TAG] == 0 || has_tag(f, tags));
}
