#include "proto/fragment.h"

#include "proto/document.h"
#include "proto/number.h"

/* What stands around the parts that are looked for again (fragment.h has a
 * whole one). */
#define OPEN       "<url><loc>"
#define LOC_END    "</loc>"
#define MD_OPEN    "<rs:md change=\""
#define STAMP_TIME " datetime=\""
#define STAMP_SEQ  "\" td:seq=\""
#define CLOSE      "</url>\n"

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

static void
add_length(struct buf *out, uint64_t length)
{
    char digits[NUMBER_SIZE_MAX];

    if (length == LENGTH_NONE)
        return;
    BUF_ADD(out, " length=\"");
    buf_add(out, digits, number_write(digits, length));
    BUF_ADD(out, "\"");
}

static void
add_time(struct buf *out, int64_t us)
{
    char text[DATETIME_SIZE];

    buf_add(out, text, datetime_write_short(text, us));
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

static void
add_link(struct buf *out, const struct link *link)
{
    BUF_ADD(out, "<rs:ln rel=\"");
    xml_escape(out, link->rel);
    BUF_ADD(out, "\" href=\"");
    xml_escape(out, link->href);
    BUF_ADD(out, "\"");
    if (link->modified_us != DATETIME_NONE) {
        BUF_ADD(out, " modified=\"");
        add_time(out, link->modified_us);
        BUF_ADD(out, "\"");
    }
    if (link->pri > 0) {
        BUF_ADD(out, " pri=\"");
        buf_add_number(out, link->pri);
        BUF_ADD(out, "\"");
    }
    ADD_ATTRIBUTE(out, "hash", link->hash);
    add_length(out, link->length);
    ADD_ATTRIBUTE(out, "type", link->type);
    ADD_ATTRIBUTE(out, "encoding", link->encoding);
    if (link->n_attributes > 0)
        add_attributes(out, link->attributes, link->n_attributes);
    BUF_ADD(out, "/>");
}

enum status
fragment_write(struct buf *out, const struct change *change, struct fragment *f,
               struct problem *why)
{
    size_t start = out->size;
    size_t hole;
    size_t size;

    if (out->failed)
        return problem(why, STATUS_BUSY, "no room for more entries");

    BUF_ADD(out, OPEN);
    xml_escape(out, change->loc);
    BUF_ADD(out, LOC_END);
    if (change->lastmod_us != DATETIME_NONE) {
        BUF_ADD(out, "<lastmod>");
        add_time(out, change->lastmod_us);
        BUF_ADD(out, "</lastmod>");
    }
    ADD_ELEMENT(out, "changefreq", change->changefreq);
    ADD_ELEMENT(out, "priority", change->priority);

    BUF_ADD(out, MD_OPEN);
    buf_add_text(out, change_kind_name(change->kind));
    BUF_ADD(out, "\"");
    hole = out->size;
    ADD_ATTRIBUTE(out, "capability", change->capability);
    ADD_ATTRIBUTE(out, "hash", change->hash);
    add_length(out, change->length);
    ADD_ATTRIBUTE(out, "type", change->type);
    ADD_ATTRIBUTE(out, "encoding", change->encoding);
    ADD_ATTRIBUTE(out, "td:tags", change->tags);
    if (change->n_attributes > 0)
        add_attributes(out, change->attributes, change->n_attributes);
    BUF_ADD(out, "/>");
    for (size_t i = 0; i < change->n_links; i++)
        add_link(out, &change->links[i]);
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
        memcpy(p, " td:datetime=\"", SIZE(" td:datetime=\""));
        p += SIZE(" td:datetime=\"");
        p += datetime_write_short(p, f->datetime_us);
        *p++ = '"';
    }
    memcpy(p, bytes + f->hole, f->size - f->hole);
    p += f->size - f->hole;
    return (size_t)(p - to);
}

static bool
skip(struct slice *text, const char *literal, size_t size)
{
    if (text->size < size || memcmp(text->data, literal, size))
        return false;
    text->data += size;
    text->size -= size;
    return true;
}

#define SKIP(text, literal) skip((text), (literal), SIZE(literal))

enum status
fragment_view(struct slice text, struct fragment_view *view)
{
    struct slice rest = text;
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

    /* What is searched ends before the closing tag, which is checked here once.
     */
    if (rest.size < SIZE(OPEN) + SIZE(CLOSE) ||
        memcmp(end - SIZE(CLOSE), CLOSE, SIZE(CLOSE)))
        return STATUS_MALFORMED;
    rest.size -= SIZE(CLOSE);
    if (!SKIP(&rest, OPEN))
        return STATUS_MALFORMED;

    /* "<" stands in a value as a reference, so the next one ends the loc. */
    p = memchr(rest.data, '<', rest.size);
    if (!p)
        return STATUS_MALFORMED;
    view->loc = (struct slice){rest.data, (size_t)(p - rest.data)};
    rest.size -= view->loc.size;
    rest.data = p;
    if (!SKIP(&rest, LOC_END))
        return STATUS_MALFORMED;

    p = memmem(rest.data, rest.size, MD_OPEN, SIZE(MD_OPEN));
    if (!p)
        return STATUS_MALFORMED;
    p += SIZE(MD_OPEN);
    rest.size -= (size_t)(p - rest.data);
    rest.data = p;
    p = memchr(rest.data, '"', rest.size);
    if (!p || change_kind_of((struct slice){rest.data, (size_t)(p - rest.data)},
                             &view->kind))
        return STATUS_MALFORMED;
    p++;
    rest.size -= (size_t)(p - rest.data);
    rest.data = p;

    view->stamp = (uint32_t)(p - text.data);
    if (!SKIP(&rest, STAMP_TIME) || rest.size < DATETIME_SIZE ||
        datetime_read((struct slice){rest.data, DATETIME_SIZE}, &view->us))
        return STATUS_MALFORMED;
    rest.data += DATETIME_SIZE;
    rest.size -= DATETIME_SIZE;
    if (!SKIP(&rest, STAMP_SEQ))
        return STATUS_MALFORMED;
    p = memchr(rest.data, '"', rest.size);
    if (!p || !number_read((struct slice){rest.data, (size_t)(p - rest.data)},
                           &view->seq))
        return STATUS_MALFORMED;
    return STATUS_OK;
}

int64_t
fragment_time(const char *fragment, uint32_t stamp)
{
    int64_t us = DATETIME_NONE;

    if (datetime_read(
            (struct slice){fragment + stamp + SIZE(STAMP_TIME), DATETIME_SIZE},
            &us))
        return DATETIME_NONE;
    return us;
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
    return (struct slice){fragment.data + SIZE(OPEN),
                          fragment.size - SIZE(OPEN)};
}

/* From the stamp on, the rest of the rs:md is ` NAME="VALUE"` again and again,
 * quotes in values escaped, then "/>". */
void
fragment_labels(struct slice fragment, uint32_t stamp, struct slice *type,
                struct slice *tags)
{
    const char *p = fragment.data + stamp;
    const char *end = fragment.data + fragment.size;

    *type = *tags = (struct slice){NULL, 0};
    while (p < end && *p == ' ') {
        const char *equals = memchr(p, '=', (size_t)(end - p));
        struct slice name = {p + 1, 0}, value;
        const char *quote;

        if (!equals || end - equals < 2)
            return;
        name.size = (size_t)(equals - name.data);
        value.data = equals + 2;
        quote = memchr(value.data, '"', (size_t)(end - value.data));
        if (!quote)
            return;
        value.size = (size_t)(quote - value.data);
        if (slice_is(name, "type"))
            *type = value;
        else if (slice_is(name, "td:tags"))
            *tags = value;
        p = quote + 1;
    }
}
