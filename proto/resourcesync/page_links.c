#include "proto/resourcesync/page_links.h"

#include "proto/http/html_links.h"
#include "proto/resourcesync/xml.h"
#include "proto/uri.h"

struct pagelinks {
    pagelink_fn *on_link;
    void *user;
    struct buf base; /* absolute */
    struct buf href, url;
    bool is_full; /* no memory */
};

/* Elements of a feed: where its own links stand. */
enum word {
    W_FEED,
    W_RSS,
    W_RDF,
    W_CHANNEL,
    W_LINK,
    W_REL,
    W_HREF,
    W_BASE,
    W_NS_ATOM,
    W_NS_ATOM_OLD,
    W_NS_RDF,
    W_NS_RSS,
    W_NS_XML,
    WORDS
};

static const char *const words[WORDS] = {
    [W_FEED] = "feed",
    [W_RSS] = "rss",
    [W_RDF] = "RDF",
    [W_CHANNEL] = "channel",
    [W_LINK] = "link",
    [W_REL] = "rel",
    [W_HREF] = "href",
    [W_BASE] = "base",
    [W_NS_ATOM] = "http://www.w3.org/2005/Atom",
    [W_NS_ATOM_OLD] = "http://purl.org/atom/ns#",
    [W_NS_RDF] = "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    [W_NS_RSS] = "http://purl.org/rss/1.0/",
    [W_NS_XML] = "http://www.w3.org/XML/1998/namespace",
};

/*
 * Where a feed is read:
 *
 *   depth 0 --> 1 feed ----> link
 *          \--> 1 rss, RDF --> 2 channel --> link
 */
struct feed {
    struct pagelinks *links;
    xml_name names[WORDS];
    unsigned depth;      /* elements that are open */
    unsigned link_depth; /* so many are open where a link counts; 0: nowhere */
    bool has_channel;    /* that may come: rss, RDF */
};

/* Links */

bool
pagelink_has_rel(const struct pagelink *link, const char *word)
{
    static const char spaces[] = " \t\n\f\r";
    struct slice rest = link->rel;

    while (rest.size > 0) {
        struct slice one = {rest.data, 0};

        while (one.size < rest.size && !strchr(spaces, rest.data[one.size]))
            one.size++;
        if (one.size > 0 && slice_is_word(one, word))
            return true;
        slice_skip(&rest, one.size + (one.size < rest.size));
    }
    return false;
}

/* Appends a URL that an author wrote in a form that can be sent: escapes other
 * characters, drops line breaks (WHATWG URL section 4.4). */
static void
add_sendable(struct buf *to, struct slice url)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < url.size; i++) {
        unsigned char c = (unsigned char)url.data[i];

        if (c == '\t' || c == '\n' || c == '\r')
            continue;
        if (c <= ' ' || c >= 0x7f || memchr("\"<>\\^`{|}", c, 9)) {
            const char escape[] = {'%', digits[c >> 4], digits[c & 15]};

            buf_add(to, escape, sizeof(escape));
        } else {
            buf_add(to, &url.data[i], 1);
        }
    }
}

/* What `href` means there, into `links->url`; false: it is too long. */
static bool
resolve_href(struct pagelinks *links, struct slice base, struct slice href)
{
    buf_clear(&links->href);
    buf_clear(&links->url);
    add_sendable(&links->href, href);
    uri_resolve(&links->url, base, buf_slice(&links->href));
    return !links->href.failed && !links->url.failed;
}

static void
set_base(struct pagelinks *links, struct slice href)
{
    if (!resolve_href(links, buf_slice(&links->base), href))
        return;
    buf_clear(&links->base);
    buf_add_slice(&links->base, buf_slice(&links->url));
}

static void
report_link(struct pagelinks *links, struct slice base, struct slice rel,
            struct slice href)
{
    struct pagelink link = {.rel = rel};

    if (rel.size == 0 || href.size == 0 || !resolve_href(links, base, href))
        return;
    link.href = buf_slice(&links->url);
    links->on_link(&link, links->user);
}

/* HTML */

static void
on_html_base(const struct html_link *link, void *user)
{
    if (link->is_base)
        set_base(user, link->href);
}

static void
on_html_link(const struct html_link *link, void *user)
{
    struct pagelinks *links = user;

    if (!link->is_base)
        report_link(links, buf_slice(&links->base), link->rel, link->href);
}

/* Feeds */

static bool
is_element(const struct feed *feed, const struct xml_element *element,
           enum word name, enum word ns)
{
    return element->name == feed->names[name] && element->ns == feed->names[ns];
}

static bool
is_atom(const struct feed *feed, const struct xml_element *element,
        enum word name)
{
    return is_element(feed, element, name, W_NS_ATOM) ||
           is_element(feed, element, name, W_NS_ATOM_OLD);
}

static struct slice
take_attribute(const struct feed *feed, const struct xml_element *element,
               enum word name, xml_name ns)
{
    for (size_t i = 0; i < element->n_attributes; i++)
        if (element->attributes[i].name == feed->names[name] &&
            element->attributes[i].ns == ns)
            return xml_value(&element->attributes[i]);
    return (struct slice){NULL, 0};
}

/* A link of the feed itself; its xml:base is its own. */
static void
on_feed_link(struct feed *feed, const struct xml_element *element)
{
    struct pagelinks *links = feed->links;
    struct slice rel = take_attribute(feed, element, W_REL, NULL);
    struct slice href = take_attribute(feed, element, W_HREF, NULL);
    struct slice base =
        take_attribute(feed, element, W_BASE, feed->names[W_NS_XML]);
    char *own;

    if (base.size == 0) {
        report_link(links, buf_slice(&links->base), rel, href);
        return;
    }
    if (!resolve_href(links, buf_slice(&links->base), base))
        return;
    own = slice_dup(buf_slice(&links->url));
    if (own)
        report_link(links, slice_of(own), rel, href);
    else
        links->is_full = true;
    free(own);
}

static enum status
on_start(void *user, const struct xml_element *element, struct problem *why)
{
    struct feed *feed = user;
    struct slice base =
        take_attribute(feed, element, W_BASE, feed->names[W_NS_XML]);
    bool is_root = feed->depth == 0;
    bool is_own = is_root;

    (void)why;
    if (is_root && is_atom(feed, element, W_FEED))
        feed->link_depth = 1;
    else if (is_root)
        feed->has_channel = (element->name == feed->names[W_RSS]) ||
                            is_element(feed, element, W_RDF, W_NS_RDF);
    else if (feed->depth == 1 && feed->has_channel &&
             element->name == feed->names[W_CHANNEL] &&
             (!element->ns || element->ns == feed->names[W_NS_RSS])) {
        feed->link_depth = 2;
        is_own = true;
    } else if (feed->depth == feed->link_depth &&
               is_atom(feed, element, W_LINK))
        on_feed_link(feed, element);

    if (is_own && base.size > 0)
        set_base(feed->links, base);
    feed->depth++;
    return feed->links->is_full ? STATUS_MEMORY : STATUS_OK;
}

static enum status
on_end(void *user, struct problem *why)
{
    struct feed *feed = user;

    (void)why;
    if (--feed->depth < feed->link_depth)
        feed->link_depth = 0; /* the channel's end */
    return STATUS_OK;
}

static enum status
on_text(void *user, struct slice text, struct problem *why)
{
    (void)user;
    (void)text;
    (void)why;
    return STATUS_OK;
}

static enum status
read_feed(struct pagelinks *links, struct slice document, struct problem *why)
{
    static const struct xml_events events = {on_start, on_end, on_text};
    struct feed feed = {.links = links};
    struct xml *xml = xml_new(&events, &feed, words, feed.names, WORDS);
    enum status rc;

    if (!xml)
        return STATUS_MEMORY;
    rc = xml_feed(xml, document, why); /* its end need not be there */
    xml_free(xml);
    return rc;
}

/* What it is */

enum kind { KIND_NONE, KIND_HTML, KIND_XML };

static bool
ends_with(struct slice text, const char *end)
{
    size_t size = strlen(end);

    return text.size >= size &&
           slice_is_word((struct slice){text.data + text.size - size, size},
                         end);
}

static struct slice
without_white_space(struct slice text)
{
    if (slice_starts(text, "\xef\xbb\xbf")) {
        slice_skip(&text, 3);
    }
    while (text.size > 0 && memchr(" \t\r\n", text.data[0], 4)) {
        slice_skip(&text, 1);
    }
    return text;
}

static enum kind
kind_of(struct slice document, struct slice type)
{
    struct slice name = slice_trimmed(slice_take(&type, ';'));
    struct slice text = without_white_space(document);
    bool is_html = slice_is_word(name, "text/html") ||
                   slice_is_word(name, "application/xhtml+xml");
    bool is_untold =
        name.size == 0 || slice_is_word(name, "application/octet-stream");

    if (!is_html && !is_untold && !ends_with(name, "/xml") &&
        !ends_with(name, "+xml"))
        return KIND_NONE;
    if (html_is_page(document))
        return KIND_HTML;
    if (is_html)
        return slice_starts(text, "<?xml") || slice_starts(text, "<rss") ||
                       slice_starts(text, "<feed") ||
                       slice_starts(text, "<rdf:RDF")
                   ? KIND_XML
                   : KIND_HTML;
    return !is_untold || slice_starts(text, "<") ? KIND_XML : KIND_NONE;
}

enum status
pagelinks_read(struct slice document, struct slice type, struct slice url,
               pagelink_fn *on_link, void *user, struct problem *why)
{
    struct pagelinks links = {.on_link = on_link, .user = user};
    enum kind kind = kind_of(document, type);
    enum status rc = STATUS_OK;

    if (kind == KIND_NONE)
        return problem(why, STATUS_UNSUPPORTED,
                       "neither HTML nor a feed, but \"%s\"",
                       problem_quote(type).text);
    buf_init(&links.base, PAGELINK_URL_MAX);
    buf_init(&links.href, PAGELINK_URL_MAX);
    buf_init(&links.url, PAGELINK_URL_MAX);
    buf_add_slice(&links.base, url);
    if (links.base.failed) {
        rc = STATUS_MEMORY;
    } else if (kind == KIND_HTML) {
        html_read(document, on_html_base, &links);
        html_read(document, on_html_link, &links);
    } else {
        rc = read_feed(&links, document, why);
    }
    buf_fini(&links.base);
    buf_fini(&links.href);
    buf_fini(&links.url);
    return rc;
}
