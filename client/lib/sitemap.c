/*
 * sitemap.c - any document of ResourceSync, read for where it leads.
 *
 *   <urlset>                       or <sitemapindex>
 *     <rs:ln rel="up" href="..."/>
 *     <rs:md capability="capabilitylist" from="..."/>
 *     <url><loc>...</loc><rs:md capability="changelist"/></url>
 *   </urlset>                      or <sitemap>
 */
#include "client/lib/sitemap.h"

#include <stdio.h>

#include "proto/buf.h"
#include "proto/vocab.h"
#include "proto/xml.h"

#define VALUE_MAX 4096

enum value { V_REL, V_CAPABILITY, V_HREF, V_TYPE, V_FROM, V_UNTIL, N_VALUES };

static const char *const value_names[N_VALUES] = {
    [V_REL] = "rel",   [V_CAPABILITY] = "capability",
    [V_HREF] = "href", [V_TYPE] = "type",
    [V_FROM] = "from", [V_UNTIL] = "until",
};

struct sitemap {
    struct sitemap_head *head;
    sitemap_fn *on_entry;
    void *user;
    unsigned depth;
    bool is_in_entry;
    bool is_in_loc;
    struct buf loc;
    struct buf values[N_VALUES]; /* of the entry or link being read */
};

static bool
is(const struct xml_element *element, const char *ns, const char *name)
{
    return element->ns && slice_is(xml_slice(element->ns), ns) &&
           slice_is(xml_slice(element->name), name);
}

static void
clear(struct sitemap *s)
{
    buf_clear(&s->loc);
    for (size_t i = 0; i < N_VALUES; i++)
        buf_clear(&s->values[i]);
}

/* Keeps what is known of the attributes; one that is too long counts as none.
 */
static void
take_values(struct sitemap *s, const struct xml_element *element)
{
    for (size_t i = 0; i < element->n_attributes; i++) {
        const struct xml_attribute *a = &element->attributes[i];

        for (size_t v = 0; v < N_VALUES && !a->ns; v++)
            if (slice_is(xml_slice(a->name), value_names[v])) {
                buf_clear(&s->values[v]);
                buf_add_slice(&s->values[v], xml_value(a));
            }
    }
}

static struct slice
value(const struct sitemap *s, enum value which)
{
    const struct buf *b = &s->values[which];

    return b->failed ? (struct slice){NULL, 0} : buf_slice(b);
}

static enum status
hand_over(struct sitemap *s, bool is_link)
{
    const struct sitemap_entry entry = {
        .is_link = is_link,
        .rel = value(s, is_link ? V_REL : V_CAPABILITY),
        .href = is_link ? value(s, V_HREF) : buf_slice(&s->loc),
        .type = value(s, V_TYPE),
        .from = value(s, V_FROM),
        .until = value(s, V_UNTIL),
    };
    bool has_failed = !is_link && s->loc.failed;

    return has_failed || !entry.href.size ? STATUS_OK
                                          : s->on_entry(&entry, s->user);
}

static enum status
start_root(struct sitemap *s, const struct xml_element *element,
           struct problem *why)
{
    s->head->is_index = is(element, NS_SITEMAP, "sitemapindex");
    if (s->head->is_index || is(element, NS_SITEMAP, "urlset"))
        return STATUS_OK;
    return problem(why, STATUS_MALFORMED, "no urlset and no sitemapindex");
}

/* A child of the root. */
static enum status
start_child(struct sitemap *s, const struct xml_element *element)
{
    clear(s);
    s->is_in_entry =
        is(element, NS_SITEMAP, "url") || is(element, NS_SITEMAP, "sitemap");
    if (is(element, NS_RS, "md")) {
        struct slice from;

        take_values(s, element);
        from = value(s, V_FROM);
        if (from.size < sizeof(s->head->from))
            snprintf(s->head->from, sizeof(s->head->from), "%.*s",
                     SLICE_ARG(from));
    } else if (is(element, NS_RS, "ln")) {
        take_values(s, element);
        return hand_over(s, true);
    }
    return STATUS_OK;
}

static enum status
on_start(void *user, const struct xml_element *element, struct problem *why)
{
    struct sitemap *s = user;

    s->depth++;
    if (s->depth == 1)
        return start_root(s, element, why);
    if (s->depth == 2)
        return start_child(s, element);
    if (s->depth == 3 && s->is_in_entry) {
        s->is_in_loc = is(element, NS_SITEMAP, "loc");
        if (is(element, NS_RS, "md"))
            take_values(s, element);
    }
    return STATUS_OK;
}

static enum status
on_end(void *user, struct problem *why)
{
    struct sitemap *s = user;

    (void)why;
    s->is_in_loc = false;
    if (s->depth-- != 2 || !s->is_in_entry)
        return STATUS_OK;
    s->is_in_entry = false;
    s->head->n_entries++;
    return hand_over(s, false);
}

static enum status
on_text(void *user, struct slice text, struct problem *why)
{
    struct sitemap *s = user;

    (void)why;
    for (size_t i = 0; s->is_in_loc && i < text.size; i++)
        if (!strchr(" \t\r\n", text.data[i]))
            buf_add(&s->loc, &text.data[i], 1);
    return STATUS_OK;
}

enum status
sitemap_read(struct slice text, struct sitemap_head *head, sitemap_fn *on_entry,
             void *user, struct problem *why)
{
    static const struct xml_events events = {on_start, on_end, on_text};
    struct sitemap s = {.head = head, .on_entry = on_entry, .user = user};
    struct xml *xml = xml_new(&events, &s, NULL, NULL, 0);
    enum status rc = STATUS_MEMORY;

    *head = (struct sitemap_head){.n_entries = 0};
    buf_init(&s.loc, VALUE_MAX);
    for (size_t i = 0; i < N_VALUES; i++)
        buf_init(&s.values[i], VALUE_MAX);
    if (xml)
        rc = xml_feed(xml, text, why);
    if (!rc)
        rc = xml_end(xml, why);
    xml_free(xml);
    buf_fini(&s.loc);
    for (size_t i = 0; i < N_VALUES; i++)
        buf_fini(&s.values[i]);
    return rc;
}
