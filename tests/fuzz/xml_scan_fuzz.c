#include "proto/resourcesync/vocab.h"
#include "proto/resourcesync/xml.h"
#include "tests/fuzz/scanned.h"

static void
add_text(struct buf *b, const char *text)
{
    buf_add_slice(b, slice_of(text ? text : "-"));
    buf_add_slice(b, SLICE(" "));
}

/* Events as text. White space between tags is left out. */
struct events {
    struct buf out;
    struct buf text;
};

static void
end_text(struct events *e)
{
    if (slice_without_spaces(buf_slice(&e->text)).size > 0) {
        buf_add_slice(&e->out, buf_slice(&e->text));
        buf_add_slice(&e->out, SLICE("\n"));
    }
    buf_clear(&e->text);
}

static enum status
on_start(void *user, const struct xml_element *element, struct problem *why)
{
    struct events *e = user;

    (void)why;
    end_text(e);
    add_text(&e->out, "start");
    add_text(&e->out, (const char *)element->name);
    add_text(&e->out, (const char *)element->ns);
    for (size_t i = 0; i < element->n_attributes; i++) {
        const struct xml_attribute *a = &element->attributes[i];

        add_text(&e->out, (const char *)a->name);
        add_text(&e->out, (const char *)a->prefix);
        add_text(&e->out, (const char *)a->ns);
        buf_add_slice(&e->out, xml_value(a));
        buf_add_slice(&e->out, SLICE(";"));
    }
    buf_add_slice(&e->out, SLICE("\n"));
    return STATUS_OK;
}

static enum status
on_end(void *user, struct problem *why)
{
    struct events *e = user;

    (void)why;
    end_text(e);
    buf_add_slice(&e->out, SLICE("end\n"));
    return STATUS_OK;
}

static enum status
on_text(void *user, struct slice text, struct problem *why)
{
    struct events *e = user;

    (void)why;
    buf_add_slice(&e->text, text);
    return STATUS_OK;
}

/* Reads the document by xml.h, `step` bytes at a time. */
static struct said
read_events(struct slice document, size_t step, bool is_scanning)
{
    static const struct xml_events events = {on_start, on_end, on_text};
    static const char *const words[] = {NS_SITEMAP, NS_RS,  "urlset", "url",
                                        "loc",      "md",   "change", "rs",
                                        "lastmod",  "hash", "ln",     "td"};
    xml_name names[sizeof(words) / sizeof(words[0])];
    struct said said = {.why = {""}};
    struct events e;
    struct xml *xml;

    buf_init(&e.out, SIZE_MAX);
    buf_init(&e.text, SIZE_MAX);
    xml_scan_switch(is_scanning);
    xml = xml_new(&events, &e, words, names, sizeof(words) / sizeof(words[0]));
    FUZZ_ASSERT(xml);
    while (!said.rc && document.size > 0)
        said.rc = xml_feed(xml, fuzz_take(&document, step), &said.why);
    if (!said.rc)
        said.rc = xml_end(xml, &said.why);
    said.line = said.rc ? xml_line(xml) : 0;
    xml_free(xml);
    xml_scan_switch(true);
    buf_fini(&e.text);
    said.text = e.out;
    return said;
}

FUZZ_TARGET(xml_scan, document)
{
    struct reading_way way = {.type = "application/xml"};
    size_t step = 1 + document.size % 61;

    if (document.size == 0)
        return;
    said_are_same(read_events(document, SIZE_MAX, true),
                  read_events(document, SIZE_MAX, false), SAME_TEXT);
    said_are_same(read_events(document, step, true),
                  read_events(document, SIZE_MAX, false), SAME_OUTCOME);
    for (way.use = INPUT_POST; way.use <= INPUT_RESOURCES; way.use++)
        said_are_same(said_of(&way, document, SIZE_MAX, true),
                      said_of(&way, document, SIZE_MAX, false), SAME_TEXT);
    way.use = INPUT_POST;
    way.takes_message = true;
    said_are_same(said_of(&way, document, SIZE_MAX, true),
                  said_of(&way, document, SIZE_MAX, false), SAME_TEXT);
    way.takes_message = false;
    /* In pieces, libxml2 finds a long text that may not stand there in an
     * earlier line. */
    said_are_same(said_of(&way, document, step, true),
                  said_of(&way, document, SIZE_MAX, false), SAME_OUTCOME);
    way.reports_faults = true;
    said_are_same(said_of(&way, document, SIZE_MAX, true),
                  said_of(&way, document, SIZE_MAX, false), SAME_TEXT);
}
