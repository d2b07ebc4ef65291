#include "proto/input/page_links.h"

#include "proto/http/html_links.h"
#include "proto/http/link_header.h"
#include "proto/input/document_read.h"
#include "proto/utf8.h"

struct pagelinks {
    pagelink_fn *on_link;
    void *user;
    struct buf base; /* absolute */
    struct buf href, url;
};

/* Links */

/* What `href` means there, into `links->url`; false: it is too long. */
static bool
resolve_href(struct pagelinks *links, struct slice base, struct slice href)
{
    buf_clear(&links->href);
    buf_clear(&links->url);
    uri_add_sendable(&links->href, href);
    uri_resolve(&links->url, base, buf_slice(&links->href));
    return !links->href.failed && !links->url.failed;
}

bool
pagelinks_of_header(struct slice header, struct slice url, pagelink_fn *on_link,
                    void *user)
{
    bool is_starved = false;
    struct weblink link;
    struct buf target = {.max = PAGELINK_URL_MAX};

    while (weblink_next(&header, &link)) {
        if (link.is_of_another)
            continue;
        buf_clear(&target);
        uri_resolve(&target, url, link.target);
        if (!target.failed)
            on_link(&(struct pagelink){link.rel, buf_slice(&target)}, user);
        is_starved |= target.is_starved;
    }
    buf_fini(&target);
    return !is_starved;
}

/* HTML */

static void
on_html_base(const struct html_link *link, void *user)
{
    struct pagelinks *links = user;

    if (!link->is_base ||
        !resolve_href(links, buf_slice(&links->base), link->href))
        return;
    buf_clear(&links->base);
    buf_add_slice(&links->base, buf_slice(&links->url));
}

static void
on_html_link(const struct html_link *link, void *user)
{
    struct pagelinks *links = user;

    if (!link->is_base && link->rel.size > 0 && link->href.size > 0 &&
        resolve_href(links, buf_slice(&links->base), link->href))
        links->on_link(&(struct pagelink){link->rel, buf_slice(&links->url)},
                       links->user);
}

/* Feeds */

struct feed {
    struct pagelinks *links;
    struct document_reader *reader;
};

static enum status
on_feed_link(const struct link *link, void *user)
{
    const struct feed *feed = user;
    enum document_kind kind = document_reader_head(feed->reader)->kind;
    const struct pagelink its = {.rel = link->rel, .href = link->href};

    if (kind == DOCUMENT_RSS || kind == DOCUMENT_ATOM)
        feed->links->on_link(&its, feed->links->user);
    return STATUS_OK;
}

/* What it is */

enum kind { KIND_NONE, KIND_HTML, KIND_XML };

static bool
ends_with(struct slice text, const char *end)
{
    size_t size = strlen(end);

    return text.size >= size &&
           slice_is_word(slice_from(text, text.size - size), end);
}

static enum kind
kind_of(struct slice document, struct slice type)
{
    struct slice name = slice_trimmed(slice_take(&type, ';'));
    struct slice text = document;
    bool is_html = slice_is_word(name, "text/html") ||
                   slice_is_word(name, "application/xhtml+xml");
    bool is_unnamed =
        name.size == 0 || slice_is_word(name, "application/octet-stream");

    slice_skip_start(&text, BYTE_ORDER_MARK);
    text = slice_without_spaces(text);
    if (!is_html && !is_unnamed && !ends_with(name, "/xml") &&
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
    return !is_unnamed || slice_starts(text, "<") ? KIND_XML : KIND_NONE;
}

enum status
pagelinks_read(struct slice document, struct slice type, struct slice url,
               pagelink_fn *on_link, void *user, struct problem *why)
{
    static const struct document_events events = {.on_link = on_feed_link};
    struct pagelinks links = {.on_link = on_link, .user = user};
    struct feed feed = {.links = &links};
    enum kind kind = kind_of(document, type);
    enum status rc = STATUS_OK;

    if (kind == KIND_NONE)
        return problem(why, STATUS_UNSUPPORTED,
                       "neither HTML nor a feed, but \"%s\"",
                       problem_quote(type).text);
    if (url.size > PAGELINK_URL_MAX)
        return problem(why, STATUS_TOO_LARGE,
                       "the address of the page is longer than %d bytes",
                       PAGELINK_URL_MAX);
    buf_init(&links.base, PAGELINK_URL_MAX + 1); /* terminated */
    buf_init(&links.href, PAGELINK_URL_MAX);
    buf_init(&links.url, PAGELINK_URL_MAX);
    buf_add_slice(&links.base, url);
    if (links.base.failed) {
        rc = STATUS_MEMORY;
    } else if (kind == KIND_HTML) {
        html_read(document, on_html_base, &links);
        html_read(document, on_html_link, &links);
    } else {
        BUF_ADD(&links.base, "\0");
        if (!links.base.failed)
            feed.reader =
                document_reader_new(links.base.data, false, &events, &feed);
        rc = feed.reader /* its end need not be there */
                 ? document_reader_feed(feed.reader, document, why)
                 : STATUS_MEMORY;
        document_reader_free(feed.reader);
    }
    buf_fini(&links.base);
    buf_fini(&links.href);
    buf_fini(&links.url);
    return rc;
}
