#include "proto/resourcesync/fragment.h"

#include "proto/number.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/entry_builder.h"

/* The text around the parts that readers look for (fragment.h has a whole
 * fragment). */
#define OPEN         "<url><loc>"
#define LOC_END      "</loc>"
#define MD_OPEN      "<rs:md change=\""
#define STAMP_TIME   " datetime=\""
#define STAMP_SEQ    "\" td:seq=\""
#define STAMP_SOURCE " td:datetime=\""
#define TRACEPARENT  " td:traceparent=\""
#define CLOSE        "</url>\n"

#define SIZE(literal) (sizeof(literal) - 1)

/* Prefixes that an element's attributes were given so far. */
struct prefixes {
    struct slice of[CHANGE_ATTRIBUTES_MAX];
    char made[CHANGE_ATTRIBUTES_MAX][8]; /* "ns1" ... */
    unsigned n_made;
};

static bool
is_bound(const struct prefixes *p, size_t n, struct slice prefix)
{
    for (size_t i = 0; i < n; i++)
        if (slice_equal(p->of[i], prefix))
            return true;
    return false;
}

/* Attribute `i` gets the prefix of an earlier one of its namespace, else the
 * one it wishes for, else a new one. Returns whether it has to be declared. */
static bool
choose_prefix(struct prefixes *p, const struct attribute *attributes, size_t i)
{
    const struct attribute *a = &attributes[i];

    if (slice_is(a->ns, NS_XML)) {
        p->of[i] = SLICE("xml");
        return false;
    }
    for (size_t k = 0; k < i; k++)
        if (slice_equal(attributes[k].ns, a->ns)) {
            p->of[i] = p->of[k];
            return false;
        }

    p->of[i] = a->prefix;
    if (is_ncname(a->prefix) && !slice_is(a->prefix, "rs") &&
        !slice_is(a->prefix, "td") && !slice_is(a->prefix, "xml") &&
        !slice_is(a->prefix, "xmlns") && !is_bound(p, i, a->prefix))
        return true;

    do {
        char *name = p->made[i];

        memcpy(name, "ns", 2);
        p->of[i] =
            (struct slice){name, 2 + number_write(name + 2, ++p->n_made)};
    } while (is_bound(p, i, p->of[i]));
    return true;
}

static void
add_attributes(struct buf *out, const struct attribute *attributes, size_t n)
{
    struct prefixes prefixes;

    prefixes.n_made = 0;
    for (size_t i = 0; i < n; i++) {
        if (choose_prefix(&prefixes, attributes, i)) {
            BUF_ADD(out, " xmlns:");
            buf_add_slice(out, prefixes.of[i]);
            BUF_ADD(out, "=\"");
            xml_escape(out, attributes[i].ns);
            BUF_ADD(out, "\"");
        }
        BUF_ADD(out, " ");
        buf_add_slice(out, prefixes.of[i]);
        BUF_ADD(out, ":");
        buf_add_slice(out, attributes[i].name);
        BUF_ADD(out, "=\"");
        xml_escape(out, attributes[i].value);
        BUF_ADD(out, "\"");
    }
}

/* Adds `start`, ` NAME="`, a number and a quote. */
static inline void
add_number(struct buf *out, struct slice start, uint64_t number, uint64_t none)
{
    if (number == none)
        return;
    buf_add_slice(out, start);
    buf_add_number(out, number);
    BUF_ADD(out, "\"");
}

/* ` NAME="VALUE"`, or nothing where there is no value. */
#define ADD_ATTRIBUTE(out, name, value)   \
    do {                                  \
        if ((value).size > 0) {           \
            BUF_ADD(out, " " name "=\""); \
            xml_escape(out, value);       \
            BUF_ADD(out, "\"");           \
        }                                 \
    } while (0)

/* <NAME>VALUE</NAME>, likewise. */
#define ADD_ELEMENT(out, name, value)    \
    do {                                 \
        if ((value).size > 0) {          \
            BUF_ADD(out, "<" name ">");  \
            xml_escape(out, value);      \
            BUF_ADD(out, "</" name ">"); \
        }                                \
    } while (0)

/* A normalised list has nothing to escape. */
static void
add_hash(struct buf *out, struct slice hash)
{
    if (hash.size == 0)
        return;
    BUF_ADD(out, " hash=\"");
    buf_add_slice(out, hash);
    BUF_ADD(out, "\"");
}

static void
add_link(struct buf *out, const struct link *link)
{
    struct datetime_text modified = datetime_text_short(link->modified_us);

    BUF_ADD(out, "<rs:ln");
    ADD_ATTRIBUTE(out, "rel", link->rel);
    ADD_ATTRIBUTE(out, "href", link->href);
    ADD_ATTRIBUTE(out, "modified", slice_of(modified.text));
    add_number(out, SLICE(" pri=\""), link->pri, 0);
    add_hash(out, link->hash);
    add_number(out, SLICE(" length=\""), link->length, LENGTH_NONE);
    ADD_ATTRIBUTE(out, "type", link->type);
    ADD_ATTRIBUTE(out, "encoding", link->encoding);
    if (link->n_attributes > 0)
        add_attributes(out, link->attributes, link->n_attributes);
    BUF_ADD(out, "/>");
}

bool
fragment_add_traceparent(struct buf *out, struct slice traceparent)
{
    char text[TRACEPARENT_SIZE];

    if (!traceparent_is_valid(traceparent))
        return false;
    traceparent_write(text, traceparent);
    BUF_ADD(out, TRACEPARENT);
    buf_add(out, text, sizeof(text));
    BUF_ADD(out, "\"");
    return true;
}

enum status
fragment_write(struct buf *out, const struct change *change, struct fragment *f,
               struct problem *why)
{
    struct datetime_text lastmod = change_lastmod(change);
    size_t start = out->size;
    size_t hole;
    size_t size;

    if (out->failed)
        return problem(why, STATUS_BUSY, "no room for more entries");

    BUF_ADD(out, OPEN);
    xml_escape(out, change->loc);
    BUF_ADD(out, LOC_END);
    ADD_ELEMENT(out, "lastmod", slice_of(lastmod.text));
    ADD_ELEMENT(out, "changefreq", change->changefreq);
    ADD_ELEMENT(out, "priority", change->priority);

    BUF_ADD(out, MD_OPEN);
    buf_add_text(out, change_kind_names[change->kind]);
    BUF_ADD(out, "\"");
    hole = out->size;
    if (change->traceparent.size > 0)
        fragment_add_traceparent(out, change->traceparent);
    ADD_ATTRIBUTE(out, "capability", change->capability);
    add_hash(out, change->hash);
    add_number(out, SLICE(" length=\""), change->length, LENGTH_NONE);
    ADD_ATTRIBUTE(out, "type", change->type);
    ADD_ATTRIBUTE(out, "encoding", change->encoding);
    ADD_ATTRIBUTE(out, "td:tags", change->tags);
    if (change->n_attributes > 0)
        add_attributes(out, change->attributes, change->n_attributes);
    BUF_ADD(out, "/>");
    for (size_t i = 0; i < change->n_links; i++)
        add_link(out, &change->links[i]);
    ADD_ELEMENT(out, "td:title", change->title);
    ADD_ELEMENT(out, "td:summary", change->summary);
    ADD_ELEMENT(out, "td:author", change->author);
    ADD_ELEMENT(out, "td:data", change->data);
    BUF_ADD(out, CLOSE);
    if (out->failed) {
        out->size = start;
        out->failed = false;
        return problem(why, STATUS_BUSY, "no room for more entries");
    }

    size = out->size - start;
    if (size > FRAGMENT_MAX - FRAGMENT_STAMP_MAX) {
        out->size = start;
        return problem(why, STATUS_INVALID,
                       "the entry needs %zu bytes of XML, more than %d", size,
                       FRAGMENT_MAX - FRAGMENT_STAMP_MAX);
    }
    f->size = (uint32_t)size;
    f->hole = (uint32_t)(hole - start);
    f->datetime_us = change->datetime_us;
    return STATUS_OK;
}

size_t
fragment_stamp(char *to, const char *bytes, const struct fragment *f,
               int64_t us, uint64_t seq)
{
    char *p = to;

    memcpy(p, bytes, f->hole);
    p += f->hole;
    memcpy(p, STAMP_TIME, SIZE(STAMP_TIME));
    p += SIZE(STAMP_TIME);
    datetime_write(p, us);
    p += DATETIME_SIZE;
    memcpy(p, STAMP_SEQ, SIZE(STAMP_SEQ));
    p += SIZE(STAMP_SEQ);
    p += number_write(p, seq);
    *p++ = '"';
    if (f->datetime_us != DATETIME_NONE && f->datetime_us != us) {
        memcpy(p, STAMP_SOURCE, SIZE(STAMP_SOURCE));
        p += SIZE(STAMP_SOURCE);
        p += datetime_write_short(p, f->datetime_us);
        *p++ = '"';
    }
    memcpy(p, bytes + f->hole, f->size - f->hole);
    p += f->size - f->hole;
    return (size_t)(p - to);
}

size_t
fragment_unstamp(struct slice stamped, uint32_t stamp, struct fragment *f)
{
    struct slice rest = slice_from(stamped, stamp), value;
    size_t size;

    *f = (struct fragment){.hole = stamp, .datetime_us = DATETIME_NONE};
    slice_skip(&rest, SIZE(STAMP_TIME) + DATETIME_SIZE + SIZE(STAMP_SEQ));
    (void)slice_take_to(&rest, '"', &value);
    if (slice_skip_start(&rest, STAMP_SOURCE) &&
        slice_take_to(&rest, '"', &value) &&
        datetime_read(value, &f->datetime_us))
        f->datetime_us = DATETIME_NONE;
    size = (size_t)(rest.data - stamped.data) - stamp;
    f->size = (uint32_t)(stamped.size - size);
    return size;
}

enum status
fragment_view(struct slice text, struct fragment_view *view)
{
    struct slice rest = text, value;
    const char *end;
    const char *p;
    size_t limit = text.size < FRAGMENT_MAX ? text.size : FRAGMENT_MAX;

    if (limit == 0)
        return STATUS_MALFORMED;
    end = memchr(text.data, '\n', limit);
    if (!end)
        return STATUS_MALFORMED;
    end++;
    rest.size = (size_t)(end - text.data);
    view->size = (uint32_t)rest.size;

    /* The search ends before the closing tag, which is checked here once. */
    if (rest.size < SIZE(OPEN) + SIZE(CLOSE) ||
        memcmp(end - SIZE(CLOSE), CLOSE, SIZE(CLOSE)))
        return STATUS_MALFORMED;
    rest.size -= SIZE(CLOSE);
    if (!slice_skip_start(&rest, OPEN))
        return STATUS_MALFORMED;

    /* "<" stands in a value as a reference, so the next one ends the loc. */
    if (!slice_take_to(&rest, '<', &view->loc) ||
        !slice_skip_start(&rest, &LOC_END[1]))
        return STATUS_MALFORMED;

    while (!slice_skip_start(&rest, MD_OPEN)) {
        p = rest.size > 0 ? memchr(rest.data + 1, '<', rest.size - 1) : NULL;
        if (!p)
            return STATUS_MALFORMED;
        slice_skip(&rest, (size_t)(p - rest.data));
    }
    if (!slice_take_to(&rest, '"', &value) ||
        change_kind_of(value, &view->kind))
        return STATUS_MALFORMED;

    view->stamp = (uint32_t)(rest.data - text.data);
    if (!slice_skip_start(&rest, STAMP_TIME) || rest.size < DATETIME_SIZE ||
        datetime_read((struct slice){rest.data, DATETIME_SIZE}, &view->us))
        return STATUS_MALFORMED;
    slice_skip(&rest, DATETIME_SIZE);
    if (!slice_skip_start(&rest, STAMP_SEQ) ||
        !slice_take_to(&rest, '"', &value) || !number_read(value, &view->seq))
        return STATUS_MALFORMED;
    return STATUS_OK;
}

int64_t
fragment_time(const char *fragment, uint32_t stamp)
{
    int64_t us;
    struct slice text = {fragment + stamp + SIZE(STAMP_TIME), DATETIME_SIZE};

    return datetime_read(text, &us) ? DATETIME_NONE : us;
}

/* In front of the stamp stands the end of the kind's name, and a quote. All
 * three names are as long. */
enum change_kind
fragment_kind(const char *fragment, uint32_t stamp)
{
    switch (fragment[stamp - SIZE("created\"")]) {
    case 'c':
        return CHANGE_CREATED;
    case 'u':
        return CHANGE_UPDATED;
    default:
        return CHANGE_DELETED;
    }
}

struct slice
fragment_from_loc(struct slice fragment)
{
    return slice_from(fragment, SIZE(OPEN));
}

struct slice
fragment_loc(struct slice fragment)
{
    struct slice rest = fragment_from_loc(fragment);

    return slice_take(&rest, '<');
}

/* From the stamp on, the rest of the rs:md is ` NAME="VALUE"` again and again,
 * quotes in values escaped, then "/>". Moves `rest` past the next one. */
static bool
next_attribute(struct slice *rest, struct slice *name, struct slice *value)
{
    return slice_take_char(rest, ' ') && slice_take_to(rest, '=', name) &&
           slice_take_char(rest, '"') && slice_take_to(rest, '"', value);
}

/* Reading all of it */

/* An element with attributes, while they are read: the rs:md or an rs:ln. */
struct element {
    struct entry *entry;
    struct link *link; /* NULL: the rs:md */
    struct entry_attributes attributes;
    struct slice prefix, ns; /* declared last */
};

/* Sets *text to the text that fragment_write escaped. */
static enum status
unescape_text(struct entry *entry, struct slice escaped, struct slice *text)
{
    struct buf plain = {.capacity = escaped.size};

    *text = escaped;
    if (escaped.size == 0 || !memchr(escaped.data, '&', escaped.size))
        return STATUS_OK;
    plain.data = arena_take(&entry->arena, escaped.size);
    if (!plain.data)
        return STATUS_MEMORY;
    xml_unescape(&plain, escaped); /* no longer than it was: it has room */
    *text = buf_slice(&plain);
    return STATUS_OK;
}

static enum status
read_foreign(struct element *e, struct slice name, struct slice value)
{
    const struct attribute *earlier = *e->attributes.first;
    struct attribute a = {.name = name};
    enum status rc;

    a.prefix = slice_take(&a.name, ':');
    if (slice_is(a.prefix, "xmlns")) {
        e->prefix = a.name;
        return unescape_text(e->entry, value, &e->ns);
    }
    /* fragment_write declares it in front of the first attribute that has it.
     */
    if (slice_is(a.prefix, "xml"))
        a.ns = SLICE(NS_XML);
    else if (slice_equal(a.prefix, e->prefix))
        a.ns = e->ns;
    else
        for (size_t i = 0; a.ns.size == 0 && i < *e->attributes.count; i++)
            if (slice_equal(a.prefix, earlier[i].prefix))
                a.ns = earlier[i].ns;
    if (a.ns.size == 0)
        return STATUS_MALFORMED;
    rc = unescape_text(e->entry, value, &a.value);
    return rc ? rc : entry_attribute(e->entry, e->attributes, &a, NULL);
}

/* Lends the value where nothing had to be escaped. */
static enum status
read_attribute(struct element *e, struct slice name, struct slice value)
{
    struct slice plain = name;
    bool is_ours = slice_skip_start(&plain, "td:");
    enum entry_member member = entry_member_of(plain);
    uint64_t known = e->link ? is_ours ? 0 : ENTRY_LINK_MEMBERS
                     : is_ours
                         ? MEMBER_BIT(M_SEQ) | MEMBER_BIT(M_DATETIME) |
                               MEMBER_BIT(M_TAGS) | MEMBER_BIT(M_TRACEPARENT)
                         : ENTRY_CHANGE_MEMBERS | MEMBER_BIT(M_CAPABILITY);
    enum status rc;

    if (!(known & MEMBER_BIT(member))) /* of ours: a later version's */
        return is_ours ? STATUS_OK : read_foreign(e, name, value);
    rc = unescape_text(e->entry, value, &value);
    if (rc)
        return rc;
    switch (member) {
    case M_HASH: /* the list is normalised, as the tags are */
        *(e->link ? &e->link->hash : &e->entry->change.hash) = value;
        return STATUS_OK;
    case M_TAGS:
        e->entry->change.tags = value;
        return STATUS_OK;
    case M_CAPABILITY:
        e->entry->change.capability = value;
        return STATUS_OK;
    case M_DATETIME:
        member = is_ours ? M_SOURCE_DATETIME : M_DATETIME;
        /* fall through */
    default:
        return entry_set(e->entry, e->link, member, "", value, NULL);
    }
}

/* Reads the attributes of an element, and moves `rest` past its end. */
static enum status
read_element(struct entry *entry, struct link *link, struct slice *rest)
{
    struct element e = {entry, link,
                        .attributes = entry_attributes(entry, link)};
    struct slice name, value;
    enum status rc = STATUS_OK;

    while (!rc && next_attribute(rest, &name, &value))
        rc = read_attribute(&e, name, value);
    if (!rc && !slice_skip_start(rest, "/>"))
        rc = STATUS_MALFORMED;
    return rc;
}

/* Takes the text of an element, if it comes next. */
static inline bool
take_text(struct slice *rest, const char *open, const char *close,
          struct slice *text)
{
    *text = (struct slice){NULL, 0};
    if (!slice_skip_start(rest, open))
        return true;
    *text = slice_take(rest, '<');
    return slice_skip_start(rest, close);
}

#define TAKE_TEXT(rest, name, text) \
    take_text((rest), "<" name ">", "/" name ">", (text))

/* True if that is the end tag of an element of our namespace. */
static bool
is_end_of(struct slice tag, struct slice name)
{
    return slice_skip_start(&tag, "/td:") && slice_equal(tag, name);
}

/* Reads the words of the event that come next. What else is of our namespace is
 * a later version's, and passed over. */
static enum status
read_words(struct entry *entry, struct slice *rest)
{
    struct slice *words = entry->change.words;
    size_t next = 0;
    enum status rc = STATUS_OK;

    while (!rc && slice_skip_start(rest, "<td:")) {
        struct slice tag = slice_take(rest, '>'), start = tag, text, end;
        struct slice name = slice_take_until(&start, " /");
        size_t i = 0;

        while (i < CHANGE_WORDS && !slice_is(tag, change_word_rows[i].name))
            i++;
        if (i == CHANGE_WORDS && slice_ends(tag, "/"))
            continue;
        do {
            text = slice_take(rest, '<');
            end = slice_take(rest, '>');
        } while (i == CHANGE_WORDS && rest->size > 0 && !is_end_of(end, name));
        if (!is_end_of(end, name) || i < next)
            return STATUS_MALFORMED;
        if (i == CHANGE_WORDS)
            continue;
        /* Compact JSON has no control characters. */
        rc = i == WORD_DATA && slice_find(text, "&#")
                 ? STATUS_MALFORMED
                 : unescape_text(entry, text, &words[i]);
        next = i + 1;
    }
    return rc;
}

enum status
fragment_read(struct entry *entry, struct slice fragment)
{
    struct change *change = &entry->change;
    struct slice rest = fragment, loc, lastmod;
    struct link *link;
    enum status rc;

    entry_clear(entry);
    entry->is_of_message = entry->is_lent = true;
    if (!slice_skip_start(&rest, "<url>") || !TAKE_TEXT(&rest, "loc", &loc) ||
        !TAKE_TEXT(&rest, "lastmod", &lastmod) ||
        !TAKE_TEXT(&rest, "changefreq", &change->changefreq) ||
        !TAKE_TEXT(&rest, "priority", &change->priority))
        return STATUS_MALFORMED;
    rc = unescape_text(entry, loc, &change->loc);
    if (!rc)
        rc = read_words(entry, &rest);
    if (!rc && !slice_skip_start(&rest, "<rs:md"))
        rc = STATUS_MALFORMED;
    if (!rc && lastmod.size > 0)
        rc = entry_lastmod(lastmod, change, NULL);
    if (!rc)
        rc = read_element(entry, NULL, &rest);
    if (!rc)
        rc = read_words(entry, &rest);
    while (!rc && slice_skip_start(&rest, "<rs:ln")) {
        rc = entry_link(entry, &link, NULL);
        if (!rc)
            rc = read_element(entry, link, &rest);
        if (!rc)
            rc = read_words(entry, &rest);
    }
    if (!rc && (!slice_is(rest, CLOSE) || change->loc.size == 0 ||
                change->seq == 0 || !entry->has_kind))
        rc = STATUS_MALFORMED;
    return rc && rc != STATUS_MEMORY ? STATUS_MALFORMED : rc;
}

/* Reading a part of it */

void
fragment_labels(struct slice fragment, uint32_t stamp, struct slice *type,
                struct slice *tags)
{
    struct slice rest = slice_from(fragment, stamp), name, value;

    *type = *tags = (struct slice){NULL, 0};
    while (next_attribute(&rest, &name, &value))
        if (slice_is(name, "type"))
            *type = value;
        else if (slice_is(name, "td:tags"))
            *tags = value;
}

struct slice
fragment_traceparent(struct slice fragment, uint32_t stamp)
{
    struct slice rest = slice_from(fragment, stamp), name, value;

    /* It follows the two or three attributes of the stamp. */
    for (int i = 0; i < 4 && next_attribute(&rest, &name, &value); i++)
        if (slice_is(name, "td:traceparent"))
            return value;
    return (struct slice){NULL, 0};
}

void
fragment_bytes(struct slice fragment, uint32_t stamp, struct slice *hash,
               uint64_t *length)
{
    struct slice rest = slice_from(fragment, stamp), name, value;

    *hash = (struct slice){NULL, 0};
    *length = LENGTH_NONE;
    while (next_attribute(&rest, &name, &value))
        if (slice_is(name, "hash"))
            *hash = value;
        else if (slice_is(name, "length"))
            (void)number_read(value, length);
}

#define LINK_OF(rel) SLICE("<rs:ln rel=\"" rel "\"")

/* Appends the elements from `p` to `end` that begin with `start`, or all others
 * if not is_wanted; "<" begins nothing else, and `rel` comes first in an rs:ln.
 */
static void
add_elements(struct buf *to, const char *p, const char *end, struct slice start,
             bool is_wanted)
{
    while (p < end) {
        const char *next = memchr(p + 1, '<', (size_t)(end - p) - 1);
        size_t size = (size_t)((next ? next : end) - p);
        bool is_such = size >= start.size && !memcmp(p, start.data, start.size);

        if (is_such == is_wanted)
            buf_add(to, p, size);
        p += size;
    }
}

/* The words of the event, which stand at the end of a fragment; empty: it has
 * none. */
static struct slice
words_of(struct slice fragment)
{
    const char *end = fragment.data + fragment.size - SIZE(CLOSE), *words;

    /* Behind an rs:md or rs:ln there are none; "<" stands in values as a
     * reference. */
    if (fragment.size < SIZE(OPEN CLOSE) || !memcmp(end - 2, "/>", 2))
        return (struct slice){NULL, 0};
    words = slice_find(fragment, "<td:");
    return words ? slice_between(words, end) : (struct slice){NULL, 0};
}

bool
fragment_has_data(struct slice fragment)
{
    return slice_ends(fragment, "</td:data>" CLOSE);
}

void
fragment_without_data(struct buf *to, struct slice fragment)
{
    const char *data =
        fragment_has_data(fragment) ? slice_find(fragment, "<td:data>") : NULL;

    if (!data) {
        buf_add_slice(to, fragment);
        return;
    }
    buf_add_slice(to, slice_between(fragment.data, data));
    BUF_ADD(to, CLOSE);
}

void
fragment_resource(struct buf *to, struct slice fragment, uint32_t stamp)
{
    /* In front of the stamp stands the change, all three as long; in it the
     * seq, which fragment_view has read, and behind that the source's time,
     * perhaps. */
    struct slice rest =
        slice_from(fragment, stamp + SIZE(STAMP_TIME) + DATETIME_SIZE + 1);
    const char *seq = rest.data, *end = seq + rest.size, *elements;
    struct slice value, words = words_of(fragment);

    slice_skip(&rest, SIZE(STAMP_SEQ) - 1);
    slice_take_to(&rest, '"', &value);
    buf_add(to, fragment.data, stamp - SIZE(" change=\"created\""));
    buf_add_slice(to, slice_between(seq, rest.data));
    if (slice_skip_start(&rest, STAMP_SOURCE))
        slice_take_to(&rest, '"', &value);
    if (slice_skip_start(&rest, TRACEPARENT))
        slice_take_to(&rest, '"', &value);
    elements = memchr(rest.data, '<', rest.size);
    if (!elements)
        elements = end;
    buf_add_slice(to, slice_between(rest.data, elements));
    add_elements(to, elements, words.size > 0 ? words.data : end,
                 LINK_OF(REL_PATCH), false);
    if (words.size > 0)
        BUF_ADD(to, CLOSE);
}

/* Where the attributes of the rs:md begin: their first space. "<" stands in
 * values as a reference. */
static uint32_t
attributes_at(struct slice entry)
{
    const char *md = slice_find(entry, "<rs:md ");

    return md ? (uint32_t)(md - entry.data) + SIZE("<rs:md")
              : (uint32_t)entry.size;
}

void
fragment_names(struct slice entry, struct slice *loc, struct slice *type)
{
    struct slice tags;

    *loc = fragment_loc(entry);
    fragment_labels(entry, attributes_at(entry), type, &tags);
}

void
fragment_id(struct digest *id, struct slice entry)
{
    struct slice loc = fragment_loc(entry), hash, rest;
    int64_t lastmod_us = DATETIME_NONE;
    uint64_t length;

    fragment_bytes(entry, attributes_at(entry), &hash, &length);
    rest = slice_from(entry, (size_t)(loc.data - entry.data) + loc.size);
    if (slice_skip_start(&rest, LOC_END "<lastmod>") &&
        datetime_read_any(slice_take(&rest, '<'), &lastmod_us))
        lastmod_us = DATETIME_NONE;
    resource_id(id, loc, hash, length, lastmod_us);
}

void
fragment_in_manifest(struct buf *to, struct slice entry,
                     const struct fragment_member *member)
{
    uint32_t at = attributes_at(entry);
    struct slice rest = slice_from(entry, at), name, value, hash;
    uint64_t length;

    fragment_bytes(entry, at, &hash, &length);
    while (next_attribute(&rest, &name, &value))
        ;
    buf_add(to, entry.data, (size_t)(rest.data - entry.data));
    if (member) {
        if (hash.size == 0)
            add_hash(to, slice_of(digest_text(member->digest).text));
        if (length == LENGTH_NONE)
            add_number(to, SLICE(" length=\""), member->length, LENGTH_NONE);
        ADD_ATTRIBUTE(to, "path", member->path);
    }
    buf_add_slice(to, slice_take(&rest, '>'));
    BUF_ADD(to, ">");
    add_elements(to, rest.data, rest.data + rest.size, LINK_OF(REL_PATCH),
                 false);
}

static void
skip_same(struct slice *a, struct slice *b)
{
    size_t n = 0;

    while (n < a->size && n < b->size && a->data[n] == b->data[n])
        n++;
    slice_skip(a, n);
    slice_skip(b, n);
}

/* Skips the time of day behind a date if it is the first moment of the day.
 * True if it was. */
static bool
skip_midnight(struct slice *moment, const struct slice *date)
{
    return slice_starts(*moment, "T00:00:00Z</lastmod>") &&
           slice_starts(*date, "</lastmod>") &&
           slice_skip_start(moment, "T00:00:00Z");
}

/* Where the kind begins that stands in front of the hole. */
#define KIND_BEFORE SIZE("created\"")

bool
fragment_is_resource(struct slice fragment, uint32_t hole, struct slice entry)
{
    size_t same = hole - SIZE(" change=\"created\"");
    struct slice rest = slice_from(fragment, hole);
    struct slice head = {fragment.data, same}, seq;

    /* A date as lastmod equals its first moment: brokers used to write one as
     * the other. */
    skip_same(&head, &entry);
    if (skip_midnight(&head, &entry) || skip_midnight(&entry, &head))
        skip_same(&head, &entry);
    return head.size == 0 &&
           /* without the quote in front */
           slice_skip_start(&entry, &STAMP_SEQ[1]) &&
           slice_take_to(&entry, '"', &seq) && slice_equal(rest, entry);
}

void
fragment_set_kind(char *fragment, uint32_t hole, enum change_kind kind)
{
    memcpy(fragment + hole - KIND_BEFORE, change_kind_names[kind],
           KIND_BEFORE - 1);
}

void
fragment_write_deleted(struct buf *out, struct slice entry, struct fragment *f)
{
    struct slice loc = fragment_loc(entry);
    size_t start = out->size;

    BUF_ADD(out, OPEN);
    buf_add_slice(out, loc);
    BUF_ADD(out, LOC_END MD_OPEN "deleted\"");
    f->hole = (uint32_t)(out->size - start);
    BUF_ADD(out, "/>");
    add_elements(out, loc.data + loc.size, entry.data + entry.size,
                 LINK_OF("via"), true);
    BUF_ADD(out, CLOSE);
    f->size = (uint32_t)(out->size - start);
    f->datetime_us = DATETIME_NONE;
}
