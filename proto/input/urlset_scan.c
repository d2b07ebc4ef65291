#include "proto/input/urlset_scan.h"

#include "proto/input/data_read.h"
#include "proto/resourcesync/xml_scan.h"

struct reading {
    const char *at;
    const char *end;
    char *room; /* for values that have entities */
    uint64_t n_lines;
    struct entry *entry;
    struct xml_known known;
    uint64_t seen; /* elements of the entry; M_NONE: its rs:md */
};

/* Marks the end of a text, and bytes that a text does not have as they are: as
 * "]]>" is no part of it, ">" is one of them. */
static inline uint64_t
find_in_text(uint64_t v)
{
    return (v & SWAR_HIGHS) | swar_below(v, ' ') | swar_equal(v, '&') |
           swar_equal(v, '>') | swar_equal(v, '<');
}

/* Inline, so that a literal is compared as a number. */
static inline enum token
read_literal(struct reading *r, struct slice literal)
{
    size_t left = (size_t)(r->end - r->at);

    if (left < literal.size)
        return memcmp(r->at, literal.data, left) ? TOKEN_UNKNOWN : TOKEN_CUT;
    if (memcmp(r->at, literal.data, literal.size) != 0)
        return TOKEN_UNKNOWN;
    r->at += literal.size;
    return TOKEN_TAKEN;
}

/* Sets a member that was not there before. */
static enum token
set_member(struct reading *r, struct link *link, uint64_t *seen,
           enum entry_member member, struct slice value)
{
    enum status rc;

    if (*seen & MEMBER_BIT(member))
        return TOKEN_UNKNOWN;
    *seen |= MEMBER_BIT(member);
    rc = member == M_DATA ? data_read(r->entry, value, NULL)
                          : entry_set(r->entry, link, member, "", value, NULL);
    return rc ? TOKEN_UNKNOWN : TOKEN_TAKEN;
}

/* Reads the text of an element, from its start tag to its end tag. */
static inline enum token
read_element(struct reading *r, struct slice start, struct slice end,
             enum entry_member member)
{
    struct slice text;
    enum token token = read_literal(r, start);

    if (!token)
        token =
            scan_characters(&r->at, r->end, find_in_text, '<', &r->room, &text);
    if (!token)
        token = read_literal(r, end);
    return token ? token
                 : set_member(r, NULL, &r->seen, member,
                              slice_without_spaces(text));
}

/* An attribute of our own namespace. */
static enum token
set_tidings(struct reading *r, struct link *link, uint64_t *seen,
            struct slice name, struct slice value)
{
    enum entry_member member = entry_member_of(name);

    if (member == M_DATETIME)
        member = M_SOURCE_DATETIME;
    if (!r->known.td || link ||
        !(MEMBER_BIT(member) &
          (MEMBER_BIT(M_TAGS) | MEMBER_BIT(M_SEQ) |
           MEMBER_BIT(M_SOURCE_DATETIME) | MEMBER_BIT(M_TRACEPARENT))))
        return TOKEN_UNKNOWN;
    if (member == M_SEQ && !r->entry->is_of_message)
        value = SLICE("0"); /* nobody looks at it */
    return set_member(r, link, seen, member, value);
}

/* Reads NAME="VALUE". */
static enum token
read_attribute(struct reading *r, struct link *link, uint64_t *seen)
{
    const char *from = r->at;
    struct slice name, value;
    enum entry_member member;
    enum token token;

    while (r->at < r->end &&
           ((*r->at >= 'a' && *r->at <= 'z') || *r->at == ':'))
        r->at++;
    name = slice_between(from, r->at);
    token = read_literal(r, SLICE("=\""));
    if (!token)
        token = scan_characters(&r->at, r->end, scan_find_in_quotes, '"',
                                &r->room, &value);
    if (token)
        return token;
    r->at++;
    if (slice_skip_start(&name, "td:"))
        return set_tidings(r, link, seen, name, value);
    member = entry_member_of(name);
    if (!(MEMBER_BIT(member) &
          (link ? ENTRY_LINK_MEMBERS : ENTRY_CHANGE_MEMBERS)))
        return TOKEN_UNKNOWN;
    return set_member(r, link, seen, member, value);
}

/* Reads the attributes and the end of <rs:md .../>, or of <rs:ln .../>. */
static enum token
read_attributes(struct reading *r, struct link *link, uint64_t *seen)
{
    for (;;) {
        bool is_apart = scan_blanks(&r->at, r->end, &r->n_lines);
        enum token token;

        if (r->at == r->end)
            return TOKEN_CUT;
        if (*r->at == '/')
            return read_literal(r, SLICE("/>"));
        token = is_apart ? read_attribute(r, link, seen) : TOKEN_UNKNOWN;
        if (token)
            return token;
    }
}

static enum token
read_resourcesync(struct reading *r)
{
    struct link *link;
    uint64_t seen = 0;
    enum token token = read_literal(r, SLICE("<rs:"));

    if (token || !r->known.rs)
        return token ? token : TOKEN_UNKNOWN;
    if (r->at < r->end && *r->at == 'l') {
        token = read_literal(r, SLICE("ln"));
        if (!token && entry_link(r->entry, &link, NULL))
            token = TOKEN_UNKNOWN;
        return token ? token : read_attributes(r, link, &seen);
    }
    token = read_literal(r, SLICE("md"));
    if (!token && r->seen & MEMBER_BIT(M_NONE)) /* a second one */
        token = TOKEN_UNKNOWN;
    r->seen |= MEMBER_BIT(M_NONE);
    return token ? token : read_attributes(r, NULL, &seen);
}

/* Reads a word of the event. */
static enum token
read_words(struct reading *r)
{
    static const struct word {
        struct slice start, end;
        enum entry_member member;
    } words[] = {
        {SLICE("<td:title>"), SLICE("</td:title>"), M_TITLE},
        {SLICE("<td:summary>"), SLICE("</td:summary>"), M_SUMMARY},
        {SLICE("<td:author>"), SLICE("</td:author>"), M_AUTHOR},
        {SLICE("<td:data>"), SLICE("</td:data>"), M_DATA},
    };
    enum token token = TOKEN_UNKNOWN;

    for (size_t i = 0; r->known.td && token == TOKEN_UNKNOWN && i < 4; i++)
        token = read_element(r, words[i].start, words[i].end, words[i].member);
    return token;
}

/* Reads the elements of an entry, and its end. */
static enum token
read_children(struct reading *r)
{
    for (;;) {
        enum token token;

        scan_blanks(&r->at, r->end, &r->n_lines);
        if (r->end - r->at < 3)
            return TOKEN_CUT;
        switch (r->at[1]) {
        case '/':
            return read_literal(r, SLICE("</url>"));
        case 'r':
            token = read_resourcesync(r);
            break;
        case 't':
            token = read_words(r);
            break;
        case 'c':
            token = read_element(r, SLICE("<changefreq>"),
                                 SLICE("</changefreq>"), M_CHANGEFREQ);
            break;
        case 'p':
            token = read_element(r, SLICE("<priority>"), SLICE("</priority>"),
                                 M_PRIORITY);
            break;
        default:
            token =
                r->at[2] == 'o'
                    ? read_element(r, SLICE("<loc>"), SLICE("</loc>"), M_LOC)
                    : read_element(r, SLICE("<lastmod>"), SLICE("</lastmod>"),
                                   M_LASTMOD);
        }
        if (token)
            return token;
    }
}

enum token
urlset_scan_entry(char room[SCAN_TOKEN_MAX], struct slice text,
                  struct entry *entry, struct xml_known known, size_t *size,
                  uint64_t *n_lines)
{
    struct reading r = {
        .at = text.data,
        .end = text.data + text.size,
        .room = room,
        .entry = entry,
        .known = known,
    };
    enum token token = read_literal(&r, SLICE("<url>"));

    if (token)
        return token;
    entry_clear(entry);
    entry->is_lent = true;
    token = read_children(&r);
    *size = (size_t)(r.at - text.data);
    *n_lines = r.n_lines;
    return token;
}
