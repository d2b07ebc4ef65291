/*
 * html_landing.c - the page at / for people, and /robots.txt
 * for crawlers. Both need no right, so they name no private set.
 *
 * In a browser that runs scripts the page becomes the console (web/console.js).
 */

#include "broker/access/identity_provider.h"
#include "broker/documents/documents.h"
#include "broker/sets/set_links.h"
#include "broker/sets/settings.h"
#include "proto/http/link_header.h"
#include "proto/resourcesync/document_write.h"

/* Sets that the page names; the Source Description has all of them. */
#define PAGE_SETS 100

/* Bytes of the Link header that names them, about. */
#define COVERED_MAX 900

/* Every crawler reads at least so much of a robots.txt (RFC 9309 section
 * 2.5). */
#define ROBOTS_BYTES ((size_t)500 * 1024)

struct page {
    const char *url;
    struct buf links;      /* for the head of the page */
    struct buf rows;       /* the table of sets */
    struct buf covered_by; /* the Link header */
    uint64_t n_sets;
};

static void
add_href(struct buf *to, const char *before, struct link_text link,
         const char *after)
{
    buf_add_text(to, before);
    xml_escape(to, link_slice(&link));
    buf_add_text(to, after);
}

static bool
add_set(struct set *set, const struct head *head, void *user)
{
    struct page *p = user;
    struct link_text list = set_link(set, LINK_CAPABILITYLIST);
    struct link_text about = registry_described_by(set);
    char time[DATETIME_SIZE + 1] = "";
    struct settings settings;

    if (set_is_private(set))
        return true;
    if (++p->n_sets > PAGE_SETS)
        return true; /* counted all the same */
    if (head->last > 0)
        time[datetime_write_short(time, head->last_us)] = '\0';
    if (p->covered_by.size + list.size < COVERED_MAX) /* as many as fit */
        weblink_add(&p->covered_by, link_slice(&list), "resourcesync");
    add_href(&p->links, "<link rel=\"resourcesync\" href=\"", list, "\">\n");
    registry_settings(set, &settings);
    BUF_ADD(&p->rows, "<tr><td>");
    if (settings.title[0]) {
        xml_escape(&p->rows, slice_of(settings.title));
        BUF_ADD(&p->rows, "<br>");
    }
    buf_add_format(&p->rows,
                   "<code>%s</code></td><td class=\"n\">%" PRIu64
                   "</td><td>%s</td><td>",
                   set->name, head->last, time);
    add_href(&p->rows, "<a href=\"", list, "\">capabilities</a> ");
    if (set_offers(set, head, GENERATION_RESOURCELIST))
        add_href(&p->rows, "<a href=\"",
                 set_link_kind(set, GENERATION_RESOURCELIST, LINK_CURRENT),
                 "\">resources</a> ");
    add_href(&p->rows, "<a href=\"", set_link(set, LINK_CHANGELIST),
             "\">changes</a>");
    add_href(&p->rows, " <a href=\"", about, "\">about</a>");
    BUF_ADD(&p->rows, "</td></tr>\n");
    return true;
}

static void
write_usage(struct buf *to, const char *url)
{
    struct link_text changes = link_to(url, LINK_CHANGES, "NAME", NULL, 0),
                     topic = link_to(url, LINK_NOTIFICATIONS, "NAME", NULL, 0),
                     hub = link_to(url, LINK_HUB, NULL, NULL, 0);

    BUF_ADD(to, "<h2>Follow a set</h2>\n<pre>tidings follow ");
    xml_escape(to, slice_of(url));
    BUF_ADD(to, "/sets/NAME --from-start</pre>\n"
                "<p>Or pull what came after a position, as JSON:</p>\n");
    add_href(to, "<pre>curl '", changes, "?after=0'</pre>\n");
    BUF_ADD(to, "<p>Or have it posted to you, by <a "
                "href=\"https://www.w3.org/TR/websub/\">WebSub</a>:</p>\n");
    add_href(to,
             "<pre>curl -d hub.mode=subscribe \\\n     -d hub.topic=", topic,
             " \\\n     -d hub.callback=CALLBACK-URL \\\n     ");
    add_href(to, "", hub, "</pre>\n");
    BUF_ADD(to, "<h2>Tell of a change</h2>\n<pre>tidings publish ");
    xml_escape(to, slice_of(url));
    BUF_ADD(to, "/sets/NAME \\\n     --change updated "
                "http://example.com/a</pre>\n"
                "</main>\n</body>\n</html>\n");
}

static void
add_meta(struct buf *to, const char *name, const char *content)
{
    buf_add_format(to, "<meta name=\"%s\" content=\"", name);
    xml_escape(to, slice_of(content));
    BUF_ADD(to, "\">\n");
}

/* What the console signs people in with: web/console-sign-in.js. */
static void
add_sign_in(struct buf *to, struct identity_provider *provider)
{
    struct provider_sign_in sign_in;

    if (!identity_provider_sign_in(provider, &sign_in))
        return;
    add_meta(to, "openid-issuer", sign_in.issuer);
    add_meta(to, "openid-client", sign_in.client);
    add_meta(to, "openid-scope", sign_in.scope);
}

enum status
landing_open(const struct document_wish *wish, struct document *document,
             struct problem *why)
{
    struct page p = {
        .url = wish->registry->options.public_url,
        .covered_by.max = COVERED_MAX + sizeof(", <>; rel=\"resourcesync\""),
        .links.max = DOCUMENT_BYTES_MAX,
        .rows.max = DOCUMENT_BYTES_MAX,
    };
    struct buf text = {.max = DOCUMENT_BYTES_MAX};
    enum status rc;

    registry_each(wish->registry, add_set, &p);
    BUF_ADD(&text, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                   "<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width\">\n"
                   "<title>Tidings: what changed</title>\n");
    add_sign_in(&text, wish->provider);
    buf_add_slice(&text, buf_slice(&p.links));
    BUF_ADD(&text, "<link rel=\"icon\" href=\"icon.svg\" "
                   "type=\"image/svg+xml\">\n"
                   "<link rel=\"stylesheet\" href=\"console.css\">\n"
                   "<script type=\"module\" src=\"console.js\"></script>\n"
                   "</head>\n<body>\n<main>\n<h1>Tidings</h1>\n"
                   "<p>What changed, as ResourceSync Change Lists and as a "
                   "stream, and by POST to a callback: this is a WebSub hub. ");
    add_href(&text, "The <a href=\"",
             link_to(p.url, LINK_DESCRIPTION, NULL, NULL, 0),
             "\">Source Description</a> names every set.</p>\n");
    BUF_ADD(&text, "<h2>Sets</h2>\n");
    if (p.n_sets == 0) {
        BUF_ADD(&text,
                "<p>None yet: a set begins with its first change.</p>\n");
    } else {
        BUF_ADD(&text, "<table>\n<tr><th>Set</th><th class=\"n\">Changes</th>"
                       "<th>Last one</th><th></th></tr>\n");
        buf_add_slice(&text, buf_slice(&p.rows));
        BUF_ADD(&text, "</table>\n");
    }
    if (p.n_sets > PAGE_SETS)
        buf_add_format(&text, "<p>And %" PRIu64 " more.</p>\n",
                       p.n_sets - PAGE_SETS);
    write_usage(&text, p.url);
    text.failed = text.failed || p.links.failed || p.rows.failed;
    rc = document_of_text(document, &text, STATUS_OK, why);
    if (rc)
        buf_fini(&p.covered_by);
    else
        document->links = p.covered_by;
    buf_fini(&p.links);
    buf_fini(&p.rows);
    return rc;
}

/* /robots.txt */

/* Adds the Resource List of a set that has one. A Change List is not
 * named as a Sitemap, because it lists deleted resources too. */
static bool
add_sitemap(struct set *set, const struct head *head, void *user)
{
    struct buf *text = user;
    struct link_text list =
        set_link_kind(set, GENERATION_RESOURCELIST, LINK_CURRENT);

    if (set_is_private(set) || !set_offers(set, head, GENERATION_RESOURCELIST))
        return true;
    if (text->size + list.size + sizeof("Sitemap: \n") > ROBOTS_BYTES)
        return false;
    buf_add_format(text, "Sitemap: %s\n", list.text);
    return true;
}

enum status
robots_open(const struct document_wish *wish, struct document *document,
            struct problem *why)
{
    struct buf text = {.max = ROBOTS_BYTES};

    BUF_ADD(&text, "User-agent: *\nDisallow:\n");
    registry_each(wish->registry, add_sitemap, &text);
    return document_of_text(document, &text, STATUS_OK, why);
}
