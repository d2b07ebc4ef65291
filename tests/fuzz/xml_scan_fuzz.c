#include <stdio.h>
#include <string.h>

#include "proto/resourcesync/vocab.h"
#include "proto/resourcesync/xml.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/describe.h"

#define ENTRIES_MAX 50000

/* What a reading of a document said. */
struct said {
    enum status rc;
    struct problem why;
    uint64_t line;
    struct buf text;
};

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
    xml_scanning(is_scanning);
    xml = xml_new(&events, &e, words, names, sizeof(words) / sizeof(words[0]));
    FUZZ_ASSERT(xml);
    while (!said.rc && document.size > 0)
        said.rc = xml_feed(xml, fuzz_take(&document, step), &said.why);
    if (!said.rc)
        said.rc = xml_end(xml, &said.why);
    said.line = said.rc ? xml_line(xml) : 0;
    xml_free(xml);
    xml_scanning(true);
    buf_fini(&e.text);
    said.text = e.out;
    return said;
}

static enum status
describe_each(const struct change *change, void *user, struct problem *why)
{
    (void)why;
    describe(user, change);
    return STATUS_OK;
}

/* Reads the document as a post, a message, resources. */
static struct said
read_entries(struct slice document, enum input_use use, bool takes_message,
             bool is_scanning)
{
    struct said said = {.why = {""}};
    struct input_reader *reader;

    buf_init(&said.text, SIZE_MAX);
    xml_scanning(is_scanning);
    reader = input_reader_new(format_of(SLICE("application/xml")), use,
                              ENTRIES_MAX, describe_each, &said.text);
    FUZZ_ASSERT(reader);
    if (takes_message)
        input_reader_take_message(reader);
    said.rc = input_reader_feed(reader, document, &said.why);
    if (!said.rc)
        said.rc = input_reader_end(reader, &said.why);
    said.line = said.why.line;
    input_reader_free(reader);
    xml_scanning(true);
    return said;
}

static void
print_said(const char *name, const struct said *said)
{
    fprintf(stderr, "%s: %d in line %d: %s\n%.*s", name, (int)said->rc,
            (int)said->line, said->why.text, SLICE_ARG(buf_slice(&said->text)));
}

/* Both readings said the same; in one piece also why, and where. */
static void
check_same(struct said scanned, struct said plain, bool is_whole)
{
    bool is_same = scanned.rc == plain.rc;

    if (!scanned.rc || is_whole)
        is_same = is_same &&
                  slice_equal(buf_slice(&scanned.text), buf_slice(&plain.text));
    if (is_whole)
        is_same = is_same && scanned.line == plain.line &&
                  scanned.why.entry == plain.why.entry &&
                  !strcmp(scanned.why.text, plain.why.text);
    if (!is_same) {
        print_said("by the scanner", &scanned);
        print_said("by libxml2 alone", &plain);
    }
    FUZZ_ASSERT(is_same);
    buf_fini(&scanned.text);
    buf_fini(&plain.text);
}

FUZZ_TARGET(xml_scan, document)
{
    size_t step = 1 + document.size % 61;

    if (document.size == 0)
        return;
    check_same(read_events(document, SIZE_MAX, true),
               read_events(document, SIZE_MAX, false), true);
    check_same(read_events(document, step, true),
               read_events(document, SIZE_MAX, false), false);
    for (size_t use = INPUT_POST; use <= INPUT_RESOURCES; use++)
        check_same(read_entries(document, use, false, true),
                   read_entries(document, use, false, false), true);
    check_same(read_entries(document, INPUT_POST, true, true),
               read_entries(document, INPUT_POST, true, false), true);
}
