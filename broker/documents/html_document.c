#include "broker/documents/html_document.h"

#include "broker/documents/html.h"

/* A URL and ?page=. */
#define ADDRESS_MAX (LINK_URL_MAX + 32)

/* From so many bytes of an entry on, the rest of its facts is left out. */
#define ENTRY_BYTES 8192

/* Tables. The names are those of attributes of rs:md. The cell of the entry
 * itself has its address, and below it the attributes and links that have no
 * column. */
static const struct html_column
    changes[] = {{"Entry", "td:seq", true},
                 {"Change", "change"},
                 {"Resource"},
                 {"Time", "datetime"},
                 {NULL}},
    resources[] = {{"Resource"},
                   {"Modified", "lastmod"},
                   {"Bytes", "length", true},
                   {"Type", "type"},
                   {NULL}},
    documents[] = {{"Document"}, {"Capability", "capability"}, {NULL}},
    packages[] = {{"Package"},
                  {"From", "from"},
                  {"Until", "until"},
                  {"Bytes", "length", true},
                  {NULL}},
    periods[] = {{"Document"}, {"From", "from"}, {"Until", "until"}, {NULL}},
    states[] = {
        {"Document"}, {"As of", "at"}, {"Completed", "completed"}, {NULL}};

/* The documents, by their capability. */
static const struct kind {
    const char *title;
    const struct html_column *of_list;
    const struct html_column *of_index;
} kinds[] = {
    [CAP_DESCRIPTION] = {"Source Description", documents, documents},
    [CAP_CAPABILITYLIST] = {"Capability List", documents, documents},
    [CAP_RESOURCELIST] = {"Resource List", resources, states},
    [CAP_RESOURCEDUMP] = {"Resource Dump", packages, states},
    [CAP_RESOURCEDUMP_MANIFEST] = {"Resource Dump Manifest", resources,
                                   resources},
    [CAP_CHANGELIST] = {"Change List", changes, periods},
    [CAP_CHANGEDUMP] = {"Change Dump", packages, periods},
    [CAP_CHANGEDUMP_MANIFEST] = {"Change Dump Manifest", changes, changes},
    [CAP_RESOURCELIST_ARCHIVE] = {"Resource List Archive", states, states},
    [CAP_RESOURCEDUMP_ARCHIVE] = {"Resource Dump Archive", states, states},
    [CAP_CHANGELIST_ARCHIVE] = {"Change List Archive", periods, periods},
    [CAP_CHANGEDUMP_ARCHIVE] = {"Change Dump Archive", periods, periods},
    [CAP_CHANGE_NOTIFICATION] = {"Changes", changes, changes},
    [CAP_FRAMEWORK_NOTIFICATION] = {"Changes of documents", NULL, NULL},
};

/* How people call attributes; others have their own name. */
static const char *const labels[][2] = {
    {"at", "As of"},
    {"completed", "Completed"},
    {"from", "From"},
    {"until", "Until"},
    {"td:epoch", "Epoch"},
    {"td:after", "After entry"},
    {"td:last", "Last entry"},
    {"td:digest", "Digest"},
    {"td:seq", "Entry"},
    {"td:datetime", "Source's time"},
    {"td:tags", "Tags"},
    {"td:title", "Title"},
    {"td:summary", "Summary"},
    {"td:author", "Author"},
    {"td:data", "Data"},
    {"lastmod", "Modified"},
    {"changefreq", "Changes"},
    {"priority", "Priority"},
    {"capability", "Capability"},
    {"change", "Change"},
    {"hash", "Hash"},
    {"length", "Bytes"},
    {"type", "Type"},
    {"encoding", "Encoding"},
    {"path", "Path"},
    /* relations */
    {"up", "Up"},
    {"index", "Index"},
    {"archives", "Archive"},
    {"prev", "Previous"},
    {"next", "Next"},
    {"last", "Newest"},
    {"self", "This page"},
    {"describedby", "About"},
    {"contents", "Manifest"},
    {"hub", "Hub"},
    {"urn:tidings:1:memory", "Changes after a position"},
    {"urn:tidings:1:stream", "WebSocket"},
    {"urn:tidings:1:events", "Server-sent events"},
    {LINK_STREAM_OF_MANY, "Stream of many sets"},
    {"urn:tidings:1:oai", "OAI-PMH"},
    {"urn:tidings:1:reconcile", "Comparison"},
    {"urn:tidings:1:checkpoint", "Checkpoint"},
    {"urn:tidings:1:set", "Set"},
};

static struct slice
label_of(struct slice name)
{
    for (size_t i = 0; i < N_ELEMENTS(labels); i++)
        if (slice_is(name, labels[i][0]))
            return slice_of(labels[i][1]);
    return name;
}

/* Takes the next attribute of an element. The writers escape values, so that a
 * quote ends each of them. */
static bool
take_attribute(struct slice *rest, struct slice *name, struct slice *value)
{
    slice_skip_blanks(rest);
    *name = slice_take_until(rest, "=/<>&\"");
    if (name->size == 0 || !slice_take_char(rest, '=') ||
        !slice_take_char(rest, '"'))
        return false;
    *value = slice_take_until(rest, "\"");
    return slice_take_char(rest, '"');
}

static struct slice
attribute_of(struct slice element, const char *wanted)
{
    struct slice name, value;

    while (take_attribute(&element, &name, &value))
        if (slice_is(name, wanted))
            return value;
    return (struct slice){NULL, 0};
}

/* A page */

struct page {
    const struct html_wish *wish;
    struct buf facts; /* of the header: <dt>, <dd> */
    struct buf links; /* of the header: <li> */
    struct buf rows;
    struct buf other;                  /* the address of the XML */
    const struct kind *kind;           /* NULL: the document names none */
    const struct html_column *columns; /* likewise */
    bool is_index;
    uint64_t first; /* entries before the page */
    uint64_t n;     /* entries of the document, as far as it was read */
    bool has_more;  /* there is an entry behind the page */
};

static void
read_header(struct page *p, struct slice line)
{
    enum capability capability;
    struct slice name, value;

    if (slice_starts(line, "<sitemapindex"))
        p->is_index = true;
    if (slice_starts(line, "<rs:ln")) {
        struct slice ln = lines_between(line, "<rs:ln", "/>");
        struct slice rel = attribute_of(ln, "rel");
        struct slice href = attribute_of(ln, "href");
        struct slice label = label_of(rel);

        if (slice_is(rel, "self")) {
            buf_add_slice(&p->other, href);
            buf_add_text(&p->other, memchr(href.data, '?', href.size)
                                        ? "&amp;raw"
                                        : "?raw");
            return;
        }
        BUF_ADD(&p->links, "<li>");
        if (label.data == rel.data || !html_leads(rel)) {
            buf_add_slice(&p->links, label);
            BUF_ADD(&p->links, " ");
            label = href;
        }
        html_link(&p->links, rel, href, label);
        BUF_ADD(&p->links, "</li>\n");
        return;
    }
    if (!slice_starts(line, "<rs:md"))
        return;
    line = lines_between(line, "<rs:md", "/>");
    if (capability_of(attribute_of(line, "capability"), &capability))
        return;
    p->kind = &kinds[capability];
    p->columns = p->is_index ? p->kind->of_index : p->kind->of_list;
    while (take_attribute(&line, &name, &value)) {
        struct slice label = label_of(name);

        if (slice_is(name, "capability"))
            continue;
        buf_add_format(&p->facts, "<dt>%.*s</dt><dd>", SLICE_ARG(label));
        html_value(&p->facts, value);
        BUF_ADD(&p->facts, "</dd>\n");
    }
}

/* Entries */

/* Adds a fact of an entry, with a dot before all but the first. False: the
 * entry has enough of them. */
static bool
begin_fact(struct page *p, size_t start, bool *is_first)
{
    if (p->rows.size - start > ENTRY_BYTES) {
        BUF_ADD(&p->rows, "\xe2\x80\xa6");
        return false;
    }
    buf_add_text(&p->rows, *is_first ? "<small>" : " \xc2\xb7 ");
    *is_first = false;
    return true;
}

static bool
add_fact(struct page *p, size_t start, bool *is_first, struct slice name,
         struct slice value)
{
    if (value.size == 0 || slice_starts(name, "xmlns"))
        return true;
    for (const struct html_column *c = p->columns; c->title; c++)
        if (c->name && slice_is(name, c->name))
            return true; /* it has a column */
    if (!begin_fact(p, start, is_first))
        return false;
    html_text(&p->rows, label_of(name));
    BUF_ADD(&p->rows, " ");
    html_value(&p->rows, value);
    return true;
}

/* Adds the facts of an entry that have no column. */
static void
add_details(struct page *p, struct slice line)
{
    static const char *const elements[][3] = {
        {"td:title", "<td:title>", "</td:title>"},
        {"td:summary", "<td:summary>", "</td:summary>"},
        {"td:author", "<td:author>", "</td:author>"},
        {"lastmod", "<lastmod>", "</lastmod>"},
        {"changefreq", "<changefreq>", "</changefreq>"},
        {"priority", "<priority>", "</priority>"},
        {"td:data", "<td:data>", "</td:data>"},
    };
    size_t start = p->rows.size;
    struct slice md = lines_between(line, "<rs:md", "/>"), name, value;
    bool is_first = true, goes_on = true;

    for (size_t i = 0; i < N_ELEMENTS(elements); i++)
        goes_on = add_fact(p, start, &is_first, slice_of(elements[i][0]),
                           lines_between(line, elements[i][1], elements[i][2]));
    while (goes_on && take_attribute(&md, &name, &value))
        goes_on = add_fact(p, start, &is_first, name, value);
    while (goes_on) {
        struct slice ln = lines_between(line, "<rs:ln", "/>");

        if (ln.size == 0)
            break;
        slice_skip(&line, (size_t)(ln.data + ln.size - line.data));
        goes_on = begin_fact(p, start, &is_first);
        if (!goes_on)
            break;
        name = attribute_of(ln, "rel");
        value = attribute_of(ln, "href");
        html_text(&p->rows, label_of(name));
        BUF_ADD(&p->rows, " ");
        html_link(&p->rows, name, value, value);
    }
    if (!is_first)
        BUF_ADD(&p->rows, "</small>");
}

static void
add_row(struct page *p, struct slice line)
{
    struct slice md = lines_between(line, "<rs:md", "/>");

    BUF_ADD(&p->rows, "<tr>");
    for (const struct html_column *c = p->columns; c->title; c++) {
        const char *name = c->name ? c->name : "";
        struct slice value = attribute_of(md, name);
        enum capability capability;

        if (!c->name)
            value = lines_between(line, "<loc>", "</loc>");
        else if (!strcmp(name, "lastmod"))
            value = lines_between(line, "<lastmod>", "</lastmod>");
        else if (!strcmp(name, "capability") &&
                 !capability_of(value, &capability))
            value = slice_of(kinds[capability].title);
        html_cell(&p->rows, c);
        html_value(&p->rows, value);
        if (!c->name)
            add_details(p, line);
        BUF_ADD(&p->rows, "</td>");
    }
    BUF_ADD(&p->rows, "</tr>\n");
}

/* Reads the document up to the first entry behind the page. */
static enum status
read_document(struct page *p, struct lines *lines)
{
    uint64_t most = p->wish->page ? HTML_ENTRIES : UINT64_MAX - p->first;
    enum status rc = STATUS_OK;
    struct slice line;

    while (!rc && !p->has_more) {
        rc = lines_next(lines, &line);
        if (rc)
            break;
        if (!slice_starts(line, "<url>") && !slice_starts(line, "<sitemap>")) {
            read_header(p, line);
            continue;
        }
        p->has_more = p->n >= p->first + most;
        if (p->n >= p->first && !p->has_more && p->columns)
            add_row(p, line);
        p->n++;
    }
    return rc == STATUS_NOT_FOUND ? STATUS_OK : rc;
}

/* The page */

static void
write_content(struct buf *to, const struct page *p)
{
    if (p->facts.size)
        buf_add_format(to, "<dl>\n%.*s</dl>\n",
                       SLICE_ARG(buf_slice(&p->facts)));
    if (p->links.size)
        buf_add_format(to,
                       "<nav aria-label=\"Related documents\"><ul>\n"
                       "%.*s</ul></nav>\n",
                       SLICE_ARG(buf_slice(&p->links)));
    if (!p->columns || p->n == 0) {
        buf_add_text(to, p->columns ? "<p>No entries.</p>\n" : "");
        return;
    }
    html_table(to, p->columns);
    buf_add_slice(to, buf_slice(&p->rows));
    BUF_ADD(to, "</tbody></table>\n");
    if (p->has_more || p->first)
        buf_add_format(to, "<p>Entries %" PRIu64 " to %" PRIu64 ".</p>\n",
                       p->first + 1, p->n - p->has_more);
}

/* Writes the address of another page. Of the part before, only the first page
 * is known without reading it. */
static void
write_step(char to[ADDRESS_MAX], const struct html_wish *wish, uint64_t page)
{
    snprintf(to, ADDRESS_MAX, page > 1 ? "%s?page=%" PRIu64 : "%s",
             page == 1 && !wish->lasting[0] ? "?" : wish->lasting, page);
}

static void
write_page(struct buf *to, const struct page *p)
{
    const struct html_wish *wish = p->wish;
    char title[256], next[ADDRESS_MAX] = "", prev[ADDRESS_MAX] = "";
    size_t size = sizeof(title);
    struct link_text list = {"", 0};
    int n = snprintf(title, size, "%s%s", p->kind ? p->kind->title : "Document",
                     p->is_index ? " Index" : "");
    struct html_head head = {
        .title = title,
        .set = wish->set,
        .depth = wish->depth,
        .other = p->other.size ? buf_slice(&p->other) : SLICE("?raw"),
        .other_name = "As XML",
    };

    if (wish->number)
        n += snprintf(title + n, size - (size_t)n, " %" PRIu64, wish->number);
    if (wish->last)
        n += snprintf(title + n, size - (size_t)n,
                      wish->is_range ? "-%" PRIu64 : ", part %" PRIu64,
                      wish->last);
    if (wish->set)
        n += snprintf(title + n, size - (size_t)n, " of %s", wish->set);
    if (wish->page > 1)
        snprintf(title + n, size - (size_t)n, ", page %" PRIu64, wish->page);
    if (wish->set)
        list =
            link_to(wish->public_url, LINK_CAPABILITYLIST, wish->set, NULL, 0);
    if (p->has_more)
        write_step(next, wish, wish->page + 1);
    else if (wish->page)
        snprintf(next, sizeof(next), "%s", wish->next);
    if (wish->page > 1)
        write_step(prev, wish, wish->page - 1);
    else if (wish->page)
        snprintf(prev, sizeof(prev), "%s", wish->prev);
    head.capability = link_slice(&list);
    head.next = slice_of(next);
    head.prev = slice_of(prev);
    html_begin(to, &head);
    write_content(to, p);
    html_end(to, &head);
}

enum status
html_document_write(struct buf *to, const struct html_wish *wish,
                    struct body *body, struct slice text, struct problem *why)
{
    struct lines lines;
    struct page p = {
        .wish = wish,
        .first = wish->page ? (wish->page - 1) * HTML_ENTRIES : 0,
        .facts.max = HTML_BYTES_MAX,
        .links.max = HTML_BYTES_MAX,
        .rows.max = HTML_BYTES_MAX,
        .other.max = 2 * HTML_TEXT_MAX,
    };
    enum status rc;

    lines_init(&lines, body);
    lines.piece = text;
    rc = read_document(&p, &lines);
    buf_fini(&lines.line);
    if (rc)
        rc = problem(why, rc, "the document cannot be read");
    else if (p.n <= p.first && wish->page > 1)
        rc = problem(why, STATUS_NOT_FOUND, "the list has not so many pages");
    if (!rc) {
        write_page(to, &p);
        to->failed |=
            p.facts.failed | p.links.failed | p.rows.failed | p.other.failed;
        if (to->failed)
            rc = problem_memory(why);
    }
    buf_fini(&p.facts);
    buf_fini(&p.links);
    buf_fini(&p.rows);
    buf_fini(&p.other);
    return rc;
}
