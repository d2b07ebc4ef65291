/*
 * resourcelist.c - Resource Lists and their indexes: of the current generation,
 * and of each kept one.
 *
 * All of them are files (generation_document.h). Two other forms are made from
 * these: a plain Sitemap for crawlers that reject ResourceSync's elements
 * and pages for people. Both read the XML line by line: an entry is a
 * line (proto/resourcesync/fragment.h, proto/resourcesync/document_write.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/builds/generation.h"
#include "broker/documents/generation_document.h"
#include "broker/sets/links.h"
#include "proto/resourcesync/document_write.h"
#include "proto/resourcesync/fragment.h"

/* Entries of a page. */
#define PAGE_ENTRIES 1000

/* Lines */

struct lines {
    struct body *body;
    struct slice piece; /* the unread rest of it */
    struct buf line;    /* a line that spans several pieces */
};

static void
lines_init(struct lines *l, struct body *body)
{
    l->body = body;
    l->piece = (struct slice){NULL, 0};
    buf_init(&l->line, FRAGMENT_MAX + DOCUMENT_FRAME_MAX);
}

/* Returns the next line, lent until the next call. STATUS_NOT_FOUND: none. */
static enum status
lines_next(struct lines *l, struct slice *line)
{
    enum body_result result;
    const char *end;

    buf_clear(&l->line);
    while (!(end = l->piece.size ? memchr(l->piece.data, '\n', l->piece.size)
                                 : NULL)) {
        buf_add_slice(&l->line, l->piece);
        result = l->body->next(l->body, true, &l->piece);
        if (result == BODY_END)
            return l->line.size ? STATUS_IO : STATUS_NOT_FOUND;
        if (result != BODY_DATA || l->line.failed)
            return STATUS_IO;
    }
    *line = (struct slice){l->piece.data, (size_t)(end + 1 - l->piece.data)};
    l->piece.data += line->size;
    l->piece.size -= line->size;
    if (l->line.size > 0) {
        buf_add_slice(&l->line, *line);
        *line = buf_slice(&l->line);
    }
    return l->line.failed ? STATUS_IO : STATUS_OK;
}

/* The text between `before` and `after` in a line; empty if there is none. */
static struct slice
text_between(struct slice line, const char *before, const char *after)
{
    const char *from = memmem(line.data, line.size, before, strlen(before));
    const char *end = line.data + line.size, *to;

    if (!from)
        return (struct slice){NULL, 0};
    from += strlen(before);
    to = memmem(from, (size_t)(end - from), after, strlen(after));
    return to ? (struct slice){from, (size_t)(to - from)}
              : (struct slice){NULL, 0};
}

/* Plain */

#define PLAIN_PIECE ((size_t)64 * 1024)

#define PLAIN_ROOT(name) "<" name " xmlns=\"" NS_SITEMAP "\">\n"

/* The elements of the Sitemap protocol behind the loc of an entry. */
static void
add_elements(struct buf *to, struct slice line)
{
    static const char *const elements[][2] = {
        {"<lastmod>", "</lastmod>"},
        {"<changefreq>", "</changefreq>"},
        {"<priority>", "</priority>"},
    };

    for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++) {
        struct slice text = text_between(line, elements[i][0], elements[i][1]);

        if (text.size == 0)
            continue;
        buf_add_text(to, elements[i][0]);
        buf_add_slice(to, text);
        buf_add_text(to, elements[i][1]);
    }
}

/* Adds only a Sitemap's elements. An index leads to plain parts, too. */
static void
add_plain(struct buf *to, struct slice line)
{
    struct slice loc = text_between(line, "<loc>", "</loc>");

    if (slice_starts(line, "<url>")) {
        BUF_ADD(to, "<url><loc>");
        buf_add_slice(to, loc);
        BUF_ADD(to, "</loc>");
        add_elements(to, line);
        BUF_ADD(to, "</url>\n");
    } else if (slice_starts(line, "<sitemap>")) {
        BUF_ADD(to, "<sitemap><loc>");
        buf_add_slice(to, loc);
        BUF_ADD(to, "?plain</loc></sitemap>\n");
    } else if (slice_starts(line, "<urlset")) {
        BUF_ADD(to, PLAIN_ROOT("urlset"));
    } else if (slice_starts(line, "<sitemapindex")) {
        BUF_ADD(to, PLAIN_ROOT("sitemapindex"));
    } else if (!slice_starts(line, "<rs:")) {
        buf_add_slice(to, line);
    }
}

struct plain {
    struct body body;
    struct body *xml;
    struct lines lines;
    struct buf text;
};

static enum body_result
plain_next(struct body *body, bool may_block, struct slice *piece)
{
    struct plain *p = (struct plain *)(void *)body;
    enum status rc = STATUS_OK;
    struct slice line;

    if (!may_block)
        return BODY_WAITS;
    buf_clear(&p->text);
    while (!rc && p->text.size < PLAIN_PIECE) {
        rc = lines_next(&p->lines, &line);
        if (!rc)
            add_plain(&p->text, line);
    }
    if (p->text.failed || (rc && rc != STATUS_NOT_FOUND))
        return BODY_FAILED;
    *piece = buf_slice(&p->text);
    return p->text.size > 0 ? BODY_DATA : BODY_END;
}

static void
plain_free(struct body *body)
{
    struct plain *p = (struct plain *)(void *)body;

    p->xml->free(p->xml);
    buf_fini(&p->lines.line);
    buf_fini(&p->text);
    free(p);
}

/* Measures the plain Sitemap of a document; reads its body to the end. */
static enum status
measure_plain(struct document *document, uint64_t *size, struct problem *why)
{
    enum status rc = STATUS_OK;
    struct lines lines;
    struct slice line;
    struct buf text;

    lines_init(&lines, document->body);
    buf_init(&text, FRAGMENT_MAX + DOCUMENT_FRAME_MAX);
    *size = 0;
    while (!rc) {
        rc = lines_next(&lines, &line);
        if (rc)
            break;
        buf_clear(&text);
        add_plain(&text, line);
        if (text.failed)
            rc = STATUS_IO;
        *size += text.size;
    }
    buf_fini(&lines.line);
    buf_fini(&text);
    if (rc == STATUS_NOT_FOUND)
        return STATUS_OK;
    return problem(why, rc, "the Resource List cannot be read");
}

/* The tag of a rendering of this document, with links of ours that begin with
 * `url`; "" if the document has none. */
static struct digest
tag_of(const struct document *document, const char *form, uint64_t page,
       const char *url)
{
    char text[128];
    struct digest tag;
    int n = snprintf(text, sizeof(text), "%s %s %" PRIu64, TIDINGS_VERSION,
                     form, page);

    digest_start(
        &tag, (struct slice){(const char *)document->tag.bytes, DIGEST_SIZE});
    digest_add(&tag, (struct slice){text, (size_t)n});
    digest_add(&tag, slice_of(url));
    return tag;
}

/* Replaces the document's bodies. */
static void
replace_body(struct document *document, struct body *body, struct digest tag)
{
    if (document->gzip)
        document->gzip->free(document->gzip);
    document->gzip = NULL;
    document->may_be_packed = false;
    document->body = body;
    document->tag = tag;
}

/* Turns a document that was just opened into a plain Sitemap of that size.
 * After an error it is unchanged, and still the caller's. */
static enum status
make_plain(struct document *document, uint64_t size, struct problem *why)
{
    struct plain *p = calloc(1, sizeof(*p));

    if (!p)
        return problem_memory(why);
    p->body = (struct body){size, plain_next, plain_free, NULL};
    p->xml = document->body;
    lines_init(&p->lines, p->xml);
    buf_init(&p->text, PLAIN_PIECE + FRAGMENT_MAX + DOCUMENT_FRAME_MAX);
    replace_body(document, &p->body, tag_of(document, "plain", 0, ""));
    return STATUS_OK;
}

/* Pages */

struct page {
    const struct document_wish *wish; /* its page counts from 1 */
    uint64_t generation;
    uint64_t part;    /* GENERATION_INDEX: a page of the index */
    bool has_next;    /* another part follows */
    bool has_several; /* the part is one of several */

    struct buf rows;
    char at[40];
    uint64_t first; /* entries before the page */
    uint64_t n;     /* entries of the document, as far as it was read */
    bool has_more;  /* there is an entry behind the page */
};

static void
add_cell(struct buf *to, struct slice text, bool is_number)
{
    buf_add_text(to, is_number ? "<td class=\"n\">" : "<td>");
    buf_add_slice(to, text);
    BUF_ADD(to, "</td>");
}

/* Adds a row. The texts of the XML are escaped as HTML requires. Only URLs that
 * are safe for a browser become links. */
static void
add_row(struct page *p, struct slice line)
{
    struct slice loc = text_between(line, "<loc>", "</loc>");
    struct slice md = text_between(line, "<rs:md", "/>");
    bool is_link =
        slice_starts(loc, "http://") || slice_starts(loc, "https://");

    BUF_ADD(&p->rows, "<tr><td>");
    if (is_link) {
        BUF_ADD(&p->rows, "<a href=\"");
        buf_add_slice(&p->rows, loc);
        BUF_ADD(&p->rows, "\">");
    }
    buf_add_slice(&p->rows, loc);
    buf_add_text(&p->rows, is_link ? "</a></td>" : "</td>");
    if (p->part != GENERATION_INDEX) {
        add_cell(&p->rows, text_between(line, "<lastmod>", "</lastmod>"),
                 false);
        add_cell(&p->rows, text_between(md, " length=\"", "\""), true);
        add_cell(&p->rows, text_between(md, " type=\"", "\""), false);
    }
    BUF_ADD(&p->rows, "</tr>\n");
}

static enum status
read_rows(struct page *p, struct document *document)
{
    struct lines lines;
    struct slice line;
    enum status rc = STATUS_OK;

    lines_init(&lines, document->body);
    while (!rc && !p->has_more) {
        rc = lines_next(&lines, &line);
        if (rc)
            break;
        if (slice_starts(line, "<rs:md"))
            snprintf(p->at, sizeof(p->at), "%.*s",
                     SLICE_ARG(text_between(line, " at=\"", "\"")));
        if (!slice_starts(line, "<url>") && !slice_starts(line, "<sitemap>"))
            continue;
        p->has_more = p->n >= p->first + PAGE_ENTRIES;
        if (p->n >= p->first && !p->has_more)
            add_row(p, line);
        p->n++;
    }
    buf_fini(&lines.line);
    return rc == STATUS_NOT_FOUND ? STATUS_OK : rc;
}

/* Writes the address of a page of a part. */
static void
write_address(char *to, size_t size, const struct page *p, uint64_t part,
              uint64_t page)
{
    const struct document_wish *wish = p->wish;
    const char *url = registry_public_url(wish->registry);
    struct link_text link =
        p->has_several && part != GENERATION_INDEX
            ? link_to_part(url, wish->set->name, GENERATION_RESOURCELIST,
                           p->generation, part, LINK_PART)
            : link_to_generation(url, wish->set->name, GENERATION_RESOURCELIST,
                                 p->generation);
    int n = snprintf(to, size, "%s", link.text);

    if (page > 1)
        snprintf(to + n, size - (size_t)n, "?page=%" PRIu64, page);
}

/* Writes the address of the next or the previous page: the pages of a part,
 * then those of the next part. Of the part before, only the first page is known
 * without reading it. */
static bool
write_step(char *to, size_t size, const struct page *p, bool is_next)
{
    uint64_t part = p->part, page = p->wish->page;

    if (is_next ? p->has_more : page > 1) {
        page = is_next ? page + 1 : page - 1;
    } else if (part != GENERATION_INDEX && (is_next ? p->has_next : part > 1)) {
        part = is_next ? part + 1 : part - 1;
        page = 1;
    } else {
        return false;
    }
    write_address(to, size, p, part, page);
    return true;
}

static void
write_page(struct buf *to, struct page *p)
{
    static const char style[] =
        "<style>\n"
        "body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;"
        "margin:3rem auto;padding:0 1rem;color:#1b1f24;background:#fff}\n"
        "table{border-collapse:collapse;width:100%}\n"
        "th,td{text-align:left;padding:.35rem .75rem .35rem 0;"
        "border-bottom:1px solid #d8dee4;overflow-wrap:anywhere}\n"
        ".n{text-align:right;font-variant-numeric:tabular-nums}\n"
        "a{color:#0a58ca}\n"
        "@media(prefers-color-scheme:dark){body{color:#e6e9ec;"
        "background:#16191d}th,td{border-color:#3a414a}a{color:#7ab2ff}}\n"
        "</style>\n";
    const struct document_wish *wish = p->wish;
    struct link_text up =
        link_to(registry_public_url(wish->registry), LINK_CAPABILITYLIST,
                wish->set->name, NULL, 0);
    char next[LINK_MAX + 32] = "", prev[LINK_MAX + 32] = "";
    bool has_next = write_step(next, sizeof(next), p, true);
    bool has_prev = write_step(prev, sizeof(prev), p, false);

    buf_add_format(to,
                   "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                   "<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width\">\n"
                   "<title>Resources of %s</title>\n"
                   "<link rel=\"resourcesync\" href=\"%s\">\n",
                   wish->set->name, up.text);
    if (has_prev)
        buf_add_format(to, "<link rel=\"prev\" href=\"%s\">\n", prev);
    if (has_next)
        buf_add_format(to, "<link rel=\"next\" href=\"%s\">\n", next);
    buf_add_text(to, style);
    buf_add_format(to,
                   "</head>\n<body>\n<h1>Resources of %s</h1>\n"
                   "<p>As of %s. <a href=\"%s\">Capabilities</a></p>\n",
                   wish->set->name, p->at, up.text);
    buf_add_text(to, p->part == GENERATION_INDEX
                         ? "<table>\n<tr><th>Part</th></tr>\n"
                         : "<table>\n<tr><th>Resource</th><th>Modified</th>"
                           "<th class=\"n\">Bytes</th><th>Type</th></tr>\n");
    buf_add_slice(to, buf_slice(&p->rows));
    BUF_ADD(to, "</table>\n<p>");
    if (has_prev)
        buf_add_format(to, "<a rel=\"prev\" href=\"%s\">Previous</a> ", prev);
    if (has_next)
        buf_add_format(to, "<a rel=\"next\" href=\"%s\">Next</a>", next);
    BUF_ADD(to, "</p>\n</body>\n</html>\n");
}

/* Turns the document into a page. STATUS_NOT_FOUND: there are fewer pages.
 * After an error it is still the caller's. */
static enum status
make_page(struct document *document, struct page *p, struct problem *why)
{
    uint64_t number = p->wish->page;
    struct body *xml = document->body, *html = NULL;
    enum status rc;
    struct buf text;

    p->first = (number - 1) * PAGE_ENTRIES;
    buf_init(&p->rows, DOCUMENT_BYTES_MAX);
    buf_init(&text, DOCUMENT_BYTES_MAX);
    rc = read_rows(p, document);
    if (rc)
        rc = problem(why, rc, "the Resource List cannot be read");
    else if (p->n <= p->first && number > 1)
        rc = problem(why, STATUS_NOT_FOUND, "the list has not so many pages");
    if (!rc) {
        write_page(&text, p);
        text.failed |= p->rows.failed;
        html = body_of_buf(&text);
        if (!html)
            rc = problem_memory(why);
    }
    if (!rc) {
        replace_body(document, html,
                     tag_of(document, "page", number,
                            registry_public_url(p->wish->registry)));
        xml->free(xml);
    }
    buf_fini(&p->rows);
    buf_fini(&text);
    return rc;
}

/* Forms */

static enum status
open_part(const struct document_wish *wish, uint64_t generation, uint64_t part,
          struct document *document, struct problem *why)
{
    return generation_document_open(wish, generation, GENERATION_DOCUMENT, part,
                                    document, why);
}

/* Reads the list once to measure it, then again. */
static enum status
open_plain(const struct document_wish *wish, uint64_t generation, uint64_t part,
           struct document *document, struct problem *why)
{
    uint64_t size;
    enum status rc = open_part(wish, generation, part, document, why);

    if (rc)
        return rc;
    rc = measure_plain(document, &size, why);
    document_close(document);
    if (!rc)
        rc = open_part(wish, generation, part, document, why);
    if (rc)
        return rc;
    rc = make_plain(document, size, why);
    if (rc)
        document_close(document);
    return rc;
}

static enum status
open_page(const struct document_wish *wish, uint64_t generation, uint64_t part,
          struct document *document, struct problem *why)
{
    struct page page = {
        .wish = wish,
        .generation = generation,
        .part = part,
        .has_next = part != GENERATION_INDEX &&
                    generation_document_has(wish, generation, part + 1),
        .has_several =
            generation_document_has(wish, generation, GENERATION_INDEX),
    };
    enum status rc = open_part(wish, generation, part, document, why);

    if (rc)
        return rc;
    rc = make_page(document, &page, why);
    if (rc)
        document_close(document);
    return rc;
}

static enum status
open_form(const struct document_wish *wish, uint64_t generation, uint64_t part,
          struct document *document, struct problem *why)
{
    switch (wish->form) {
    case DOCUMENT_PLAIN:
        return open_plain(wish, generation, part, document, why);
    case DOCUMENT_HTML:
        return open_page(wish, generation, part, document, why);
    case DOCUMENT_XML:
        break;
    }
    return open_part(wish, generation, part, document, why);
}

/* Addresses */

/* Opens the address of the capability: the list itself, or the index of its
 * parts. */
enum status
resourcelist_current_open(const struct document_wish *wish,
                          struct document *document, struct problem *why)
{
    const struct generation *current =
        &wish->head.generations[wish->kind].current;
    enum status rc;

    if (current->number == 0)
        return generation_document_none(wish, why);
    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    rc = open_form(wish, current->number,
                   current->parts > 1 ? GENERATION_INDEX : 1, document, why);
    if (rc == STATUS_NOT_FOUND &&
        !generation_document_has(wish, current->number, 1))
        rc = problem(why, STATUS_IO, "the Resource List is not on the disk");
    if (!rc)
        document->modified_us = generation_document_since(wish);
    return rc;
}

/* Opens an immutable generation. */
static enum status
open_kept(const struct document_wish *wish, uint64_t part,
          struct document *document, struct problem *why)
{
    enum status rc = open_form(wish, wish->number, part, document, why);

    if (!rc)
        document->is_final = wish->form != DOCUMENT_HTML;
    return rc;
}

enum status
resourcelist_part_open(const struct document_wish *wish,
                       struct document *document, struct problem *why)
{
    enum status rc;

    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    rc = generation_document_check(wish, why);
    return rc ? rc : open_kept(wish, wish->last, document, why);
}

/* Opens a generation: its index, or its only list. */
enum status
resourcelist_generation_open(const struct document_wish *wish,
                             struct document *document, struct problem *why)
{
    bool has_index;
    enum status rc;

    if (wish->patience == LOG_MEMORY)
        return STATUS_AGAIN;
    rc = generation_document_check(wish, why);
    if (rc)
        return rc;
    has_index = generation_document_has(wish, wish->number, GENERATION_INDEX);
    return open_kept(wish, has_index ? GENERATION_INDEX : 1, document, why);
}
