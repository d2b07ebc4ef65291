#include "proto/resourcesync/document_write.h"

#include "proto/number.h"
#include "proto/swar.h"

#define XML_DECLARATION "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
#define NAMESPACES                                                            \
    " xmlns=\"" NS_SITEMAP "\" xmlns:rs=\"" NS_RS "\" xmlns:td=\"" NS_TIDINGS \
    "\">\n"

/* The tags of each root. */
static const struct root {
    struct slice open;
    struct slice close;
    struct slice entry_open;
    struct slice entry_close;
} roots[] = {
    [DOCUMENT_URLSET] =
        {
            .open = SLICE(XML_DECLARATION "<urlset" NAMESPACES),
            .close = SLICE("</urlset>\n"),
            .entry_open = SLICE("<url><loc>"),
            .entry_close = SLICE("</url>\n"),
        },
    [DOCUMENT_SITEMAPINDEX] =
        {
            .open = SLICE(XML_DECLARATION "<sitemapindex" NAMESPACES),
            .close = SLICE("</sitemapindex>\n"),
            .entry_open = SLICE("<sitemap><loc>"),
            .entry_close = SLICE("</sitemap>\n"),
        },
};

/* How many bytes a byte takes beyond its own when it stands in XML. */
static const unsigned char extra[256] = {
    ['&'] = 4,  ['<'] = 3,  ['>'] = 3,  ['"'] = 5,
    ['\t'] = 3, ['\n'] = 4, ['\r'] = 4,
};

static const char *
reference_of(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\t':
        return "&#9;";
    case '\n':
        return "&#10;";
    default:
        return "&#13;";
    }
}

/* "<" and ">" differ in one bit, and so do "&" and the quote. */
static inline uint64_t
is_special(uint64_t v)
{
    return swar_below(v, 0x20) | swar_equal(v | SWAR_ONES * 2, '>') |
           swar_equal(v | SWAR_ONES * 4, '&');
}

void
xml_escape(struct buf *to, struct slice text)
{
    size_t more = 0;
    char *p;

    if (swar_none(text, is_special, ' ')) {
        buf_add_slice(to, text);
        return;
    }

    for (size_t i = 0; i < text.size; i++)
        more += extra[(unsigned char)text.data[i]];

    p = buf_room(to, text.size + more);
    if (!p)
        return;
    to->size += text.size + more;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        size_t size = extra[(unsigned char)c];

        if (size == 0) {
            *p++ = c;
        } else {
            memcpy(p, reference_of(c), size + 1);
            p += size + 1;
        }
    }
}

void
xml_unescape(struct buf *to, struct slice text)
{
    static const char special[] = "&<>\"\t\n\r";

    while (text.size > 0) {
        const char *found = memchr(text.data, '&', text.size), *c = special;
        size_t before = found ? (size_t)(found - text.data) : text.size;

        buf_add(to, text.data, before);
        slice_skip(&text, before);
        if (!found)
            break;
        while (*c && !slice_starts(text, reference_of(*c)))
            c++;
        buf_add(to, *c ? c : "&", 1); /* no reference of ours: as it is */
        before = *c ? strlen(reference_of(*c)) : 1;
        slice_skip(&text, before);
    }
}

/* Adds an attribute, of which `start` is ` NAME="`. */
static void
add_attribute(struct buf *to, const char *start, struct slice value)
{
    buf_add_text(to, start);
    xml_escape(to, value);
    BUF_ADD(to, "\"");
}

static void
add_time(struct buf *to, const char *start, int64_t us)
{
    if (us != 0 && us != DATETIME_NONE)
        add_attribute(to, start, slice_of(datetime_text(us).text));
}

static void
add_digest(struct buf *to, const char *start, const struct digest *digest)
{
    add_attribute(to, start, slice_of(digest_text(digest).text));
}

static void
add_link(struct buf *to, const struct document_link *link, const char *end)
{
    if (link->href.size == 0)
        return;
    add_attribute(to, "<rs:ln rel=\"", slice_of(link->rel));
    add_attribute(to, " href=\"", link->href);
    if (link->type)
        add_attribute(to, " type=\"", slice_of(link->type));
    if (link->digest)
        add_digest(to, " td:digest=\"", link->digest);
    buf_add_text(to, end);
}

/* Begins an rs:md. `capability`: NULL: none. */
static void
begin_md(struct buf *to, const enum capability *capability, int64_t at_us,
         int64_t completed_us, int64_t from_us, int64_t until_us)
{
    BUF_ADD(to, "<rs:md");
    if (capability)
        add_attribute(to, " capability=\"",
                      slice_of(capability_names[*capability]));
    add_time(to, " at=\"", at_us);
    add_time(to, " completed=\"", completed_us);
    add_time(to, " from=\"", from_us);
    add_time(to, " until=\"", until_us);
}

void
document_header(struct buf *to, const struct document_head *head)
{
    const struct coverage *covers = head->coverage;
    char seconds[SECONDS_SIZE_MAX];
    size_t size;

    buf_add_slice(to, roots[head->root].open);
    for (size_t i = 0; i < head->n_links; i++)
        add_link(to, &head->links[i], "/>\n");
    begin_md(to, &head->capability, head->at_us, head->completed_us,
             head->from_us, head->until_us);
    if (covers) {
        if (covers->epoch[0])
            add_attribute(to, " td:epoch=\"", slice_of(covers->epoch));
        if (covers->follows[0])
            add_attribute(to, " td:follows=\"", slice_of(covers->follows));
        BUF_ADD(to, " td:after=\"");
        buf_add_number(to, covers->after);
        BUF_ADD(to, "\" td:last=\"");
        buf_add_number(to, covers->last);
        BUF_ADD(to, "\"");
        if (covers->has_digest)
            add_digest(to, " td:digest=\"", &covers->digest);
        add_time(to, " td:now=\"", covers->now_us);
        size = covers->heartbeat_us > 0
                   ? seconds_write(seconds, covers->heartbeat_us)
                   : 0;
        if (size > 0)
            add_attribute(to, " td:heartbeat=\"",
                          (struct slice){seconds, size});
    }
    if (head->sum)
        add_attribute(to, " td:sum=\"", slice_of(head->sum));
    BUF_ADD(to, "/>\n");
}

struct slice
document_open_of(enum document_root root)
{
    return roots[root].open;
}

struct slice
document_footer_of(enum document_root root)
{
    return roots[root].close;
}

void
document_footer(struct buf *to, enum document_root root)
{
    buf_add_slice(to, roots[root].close);
}

void
document_entry(struct buf *to, enum document_root root,
               const struct document_entry *entry)
{
    size_t start;

    buf_add_slice(to, roots[root].entry_open);
    xml_escape(to, entry->loc);
    BUF_ADD(to, "</loc>");
    start = to->size;
    begin_md(to, entry->has_capability ? &entry->capability : NULL,
             entry->at_us, entry->completed_us, entry->from_us,
             entry->until_us);
    if (entry->bytes) {
        add_digest(to, " hash=\"", &entry->bytes->sha256);
        BUF_ADD(to, " length=\"");
        buf_add_number(to, entry->bytes->length);
        BUF_ADD(to, "\"");
        add_attribute(to, " type=\"", slice_of(entry->bytes->type));
    }
    if (entry->digest)
        add_digest(to, " td:digest=\"", entry->digest);
    if (to->size == start + strlen("<rs:md"))
        to->size = start; /* it says nothing */
    else
        BUF_ADD(to, "/>");
    for (size_t i = 0; i < entry->n_links; i++)
        add_link(to, &entry->links[i], "/>");
    buf_add_slice(to, roots[root].entry_close);
}

struct slice
document_value(struct slice text, const char *start)
{
    return slice_skip_past(&text, start) ? slice_take(&text, '"')
                                         : (struct slice){NULL, 0};
}
