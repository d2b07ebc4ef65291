#include "proto/resourcesync/json_scan.h"

#include "proto/resourcesync/entry_members.h"

/* Tokens */

void
json_scan_spaces(struct json_reading *r)
{
    for (; r->at < r->end && *r->at <= ' '; r->at++) {
        if (*r->at == '\n')
            r->n_lines++;
        else if (!slice_is_space(*r->at))
            return;
    }
}

/* Takes `c` and the white space around it. */
static enum token
read_mark(struct json_reading *r, char c)
{
    json_scan_spaces(r);
    if (r->at == r->end)
        return TOKEN_CUT;
    if (*r->at != c)
        return TOKEN_UNKNOWN;
    r->at++;
    json_scan_spaces(r);
    return TOKEN_TAKEN;
}

/* Behind a value: a comma (then another one follows) or `end`. */
static enum token
read_next(struct json_reading *r, char end, bool *is_end)
{
    json_scan_spaces(r);
    if (r->at == r->end)
        return TOKEN_CUT;
    *is_end = *r->at == end;
    if (!*is_end)
        return read_mark(r, ',');
    r->at++;
    return TOKEN_TAKEN;
}

static inline uint64_t
find_in_string(uint64_t v)
{
    return (v & SWAR_HIGHS) | swar_below(v, ' ') | swar_equal(v, '"') |
           swar_equal(v, '\\');
}

static enum token
read_string(struct json_reading *r, struct slice *text)
{
    const char *from = r->at + 1;
    bool is_ascii = true;

    if (r->at == r->end)
        return TOKEN_CUT;
    if (*r->at != '"')
        return TOKEN_UNKNOWN;
    for (r->at++;; r->at++) {
        r->at = scanning_skip(r->at, r->end, find_in_string);
        if (r->at == r->end)
            return TOKEN_CUT;
        if (*r->at == '"')
            break;
        if ((unsigned char)*r->at < 0x80)
            return TOKEN_UNKNOWN;
        is_ascii = false;
    }
    *text = slice_between(from, r->at);
    r->at++;
    return is_ascii || scanning_is_text(*text) ? TOKEN_TAKEN : TOKEN_UNKNOWN;
}

/* Reads digits. The caller checks the byte behind them, as behind any value. */
static enum token
read_digits(struct json_reading *r, struct slice *text)
{
    const char *from = r->at;

    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    if (r->at == r->end)
        return TOKEN_CUT;
    *text = slice_between(from, r->at);
    return text->size > 0 && (*from != '0' || text->size == 1) ? TOKEN_TAKEN
                                                               : TOKEN_UNKNOWN;
}

/* Values */

/* The change that is read. */
struct scanned {
    struct json_reading *r;
    struct entry *entry;
    struct buf lists; /* in json_scan.lists */
};

static inline uint64_t
find_space_or_colon(uint64_t v)
{
    return swar_below(v, ' ' + 1) | swar_equal(v, ':');
}

static bool
is_word(struct slice text)
{
    const char *end = text.data + text.size;

    return scanning_skip(text.data, end, find_space_or_colon) == end;
}

/* Reads {"md5":"...","sha-256":"..."} as the list that XML has. */
static enum token
read_hash(struct scanned *s, struct slice *list)
{
    struct buf *lists = &s->lists;
    size_t from = lists->size;
    struct slice name, digits;
    bool is_end = false;
    enum token token = read_mark(s->r, '{');

    while (!token && !is_end) {
        token = read_string(s->r, &name);
        if (!token)
            token = read_mark(s->r, ':');
        if (!token)
            token = read_string(s->r, &digits);
        if (!token && (!is_word(name) || !is_word(digits)))
            token = TOKEN_UNKNOWN;
        if (token)
            break;
        if (lists->size > from)
            BUF_ADD(lists, " ");
        buf_add_slice(lists, name);
        BUF_ADD(lists, ":");
        buf_add_slice(lists, digits);
        token = read_next(s->r, '}', &is_end);
    }
    *list = slice_from(buf_slice(lists), from);
    return token;
}

/* Reads ["a","b"]. */
static enum token
read_tags(struct scanned *s)
{
    struct buf *lists = &s->lists;
    size_t from = lists->size;
    struct slice tag;
    bool is_end = false;
    enum token token = read_mark(s->r, '[');

    while (!token && !is_end) {
        token = read_string(s->r, &tag);
        if (!token && (tag.size == 0 || memchr(tag.data, ' ', tag.size)))
            token = TOKEN_UNKNOWN;
        if (token)
            break;
        if (lists->size > from)
            BUF_ADD(lists, " ");
        buf_add_slice(lists, tag);
        token = read_next(s->r, ']', &is_end);
    }
    s->entry->change.tags = slice_from(buf_slice(lists), from);
    return token;
}

static enum token read_links(struct scanned *s);

/* Reads the value of a member of the change, or of the link. */
static enum token
read_value(struct scanned *s, enum entry_member member, struct link *link)
{
    bool is_of_link = MEMBER_BIT(member) & ENTRY_LINK_MEMBERS;
    bool is_common = MEMBER_BIT(member) & ENTRY_COMMON_MEMBERS;
    struct slice value;
    enum token token;

    if (!is_common && is_of_link != (link != NULL))
        return TOKEN_UNKNOWN;
    switch (member) {
    case M_NONE:
        return TOKEN_UNKNOWN;
    case M_TAGS:
        return read_tags(s);
    case M_LINKS:
        return read_links(s);
    case M_HASH:
        token = read_hash(s, &value);
        break;
    case M_LENGTH:
    case M_PRI:
    case M_SEQ:
        token = read_digits(s->r, &value);
        break;
    default:
        token = read_string(s->r, &value);
    }
    return !token && entry_set(s->entry, link, member, "", value, NULL)
               ? TOKEN_UNKNOWN
               : token;
}

/* Reads the members of the change, or of the link, from "{" to "}". */
static enum token
read_object(struct scanned *s, struct link *link)
{
    struct slice name;
    uint64_t seen = 0;
    bool is_end = false;
    enum token token = read_mark(s->r, '{');

    while (!token && !is_end) {
        enum entry_member member = M_NONE;

        token = read_string(s->r, &name);
        if (!token) {
            member = entry_member_of(name);
            token = seen & MEMBER_BIT(member) ? TOKEN_UNKNOWN
                                              : read_mark(s->r, ':');
        }
        seen |= MEMBER_BIT(member);
        if (!token)
            token = read_value(s, member, link);
        if (!token)
            token = read_next(s->r, '}', &is_end);
    }
    return token;
}

static enum token
read_links(struct scanned *s)
{
    struct link *link;
    bool is_end = false;
    enum token token = read_mark(s->r, '[');

    while (!token && !is_end) {
        token = entry_link(s->entry, &link, NULL) ? TOKEN_UNKNOWN
                                                  : read_object(s, link);
        if (!token)
            token = read_next(s->r, ']', &is_end);
    }
    return token;
}

enum token
json_scan_change(struct json_scan *scan, struct json_reading *r,
                 struct entry *entry)
{
    struct scanned s = {.r = r, .entry = entry};
    enum token token;

    entry_clear(entry);
    entry->is_lent = true;
    buf_init_fixed(&s.lists, scan->lists, sizeof(scan->lists));
    token = read_object(&s, NULL);
    return s.lists.failed ? TOKEN_UNKNOWN : token;
}
