#include "proto/urlset_read.h"

#include <stdlib.h>

#include "proto/rs_read.h"

/* A loc of 2,048 characters, in bytes, with white space around it. */
#define TEXT_MAX 16384

/*
 * Where the parser stands; urlset_start goes down, urlset_end goes up:
 *
 *   DOCUMENT --> ROOT --> URL --> TEXT     <loc> and the like: text alone
 *                  |       +----> EMPTY    <rs:md>, <rs:ln> of an entry
 *                  +------------> EMPTY    those of the document
 *
 * and from anywhere into foreign elements, which `n_foreign` counts.
 */
enum place { PLACE_DOCUMENT, PLACE_ROOT, PLACE_URL, PLACE_TEXT, PLACE_EMPTY };

struct urlset {
    struct md_reader md;
    struct xml *xml;

    enum place place;
    unsigned n_foreign;
    bool has_md;       /* the document's */
    bool has_entry_md; /* the entry's */
    unsigned seen;     /* children of the entry, a bit each */
    enum word text_of; /* the element of `text` */
    struct buf text;
};

/* elements of the Sitemap protocol have no attributes; its root may have
 * foreign ones (xsi:schemaLocation). */
static enum status
check_plain(const struct urlset *u, const struct xml_element *element,
            const char *name, struct problem *why)
{
    for (size_t i = 0; i < element->n_attributes; i++) {
        const struct xml_attribute *a = &element->attributes[i];

        if (!is_word(&u->md, element->name, W_URLSET) || !a->ns ||
            is_ours(&u->md, a->ns))
            return md_refuse(name, a, "is not allowed", why);
    }
    return STATUS_OK;
}

static enum status
refuse_element(const struct urlset *u, const struct xml_element *element,
               struct problem *why)
{
    return problem(why, STATUS_INVALID, "the element %s%s may not stand here",
                   is_word(&u->md, element->ns, W_NS_RS) ? "rs:" : "",
                   problem_quote(xml_slice(element->name)).text);
}

static enum status
start_document(struct urlset *u, const struct xml_element *element,
               struct problem *why)
{
    if (!is_word(&u->md, element->name, W_URLSET) ||
        !is_word(&u->md, element->ns, W_NS_SITEMAP))
        return problem(why, STATUS_INVALID,
                       "the root is not urlset in the namespace %s",
                       NS_SITEMAP);
    u->place = PLACE_ROOT;
    return check_plain(u, element, "urlset", why);
}

static enum status
start_in_root(struct urlset *u, const struct xml_element *element,
              struct problem *why)
{
    enum status rc;

    if (is_word(&u->md, element->ns, W_NS_RS)) {
        u->place = PLACE_EMPTY;
        if (u->md.reader->n_entries > 0)
            return problem(why, STATUS_INVALID,
                           "rs:%s of the document after its first entry",
                           problem_quote(xml_slice(element->name)).text);
        if (is_word(&u->md, element->name, W_MD)) {
            if (u->has_md)
                return problem(why, STATUS_INVALID, "more than one rs:md");
            u->has_md = true;
            return md_read_document(&u->md, element, why);
        }
        if (is_word(&u->md, element->name, W_LN))
            return ln_read_document(&u->md, element, why);
        return refuse_element(u, element, why);
    }
    if (!is_word(&u->md, element->name, W_URL))
        return refuse_element(u, element, why);
    if (!u->has_md && u->md.reader->use != READER_RESOURCES)
        return problem(why, STATUS_INVALID,
                       "no rs:md with a capability before the first entry");

    rc = reader_entry_begin(u->md.reader, why);
    if (rc)
        return rc;
    u->place = PLACE_URL;
    u->has_entry_md = false;
    u->seen = 0;
    return check_plain(u, element, "url", why);
}

static enum status
start_in_url(struct urlset *u, const struct xml_element *element,
             struct problem *why)
{
    static const enum word texts[] = {W_LOC, W_LASTMOD, W_CHANGEFREQ,
                                      W_PRIORITY};

    if (is_word(&u->md, element->ns, W_NS_RS)) {
        u->place = PLACE_EMPTY;
        if (is_word(&u->md, element->name, W_MD)) {
            if (u->has_entry_md)
                return problem(why, STATUS_INVALID, "more than one rs:md");
            u->has_entry_md = true;
            return md_read_entry(&u->md, element, why);
        }
        if (is_word(&u->md, element->name, W_LN))
            return ln_read_entry(&u->md, element, why);
        return refuse_element(u, element, why);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!is_word(&u->md, element->name, texts[i]))
            continue;
        if (u->seen & 1u << i)
            return problem(why, STATUS_INVALID, "more than one %s",
                           (const char *)element->name);
        u->seen |= 1u << i;
        u->place = PLACE_TEXT;
        u->text_of = texts[i];
        buf_clear(&u->text);
        return check_plain(u, element, (const char *)element->name, why);
    }
    return refuse_element(u, element, why);
}

static enum status
urlset_start(void *user, const struct xml_element *element, struct problem *why)
{
    struct urlset *u = user;

    if (u->n_foreign == 0 && u->place == PLACE_DOCUMENT)
        return start_document(u, element, why);
    if (u->n_foreign > 0 || (element->ns && !is_ours(&u->md, element->ns))) {
        if (u->place == PLACE_TEXT)
            return refuse_element(u, element, why);
        u->n_foreign++;
        return STATUS_OK;
    }
    /* Without a namespace it is neither ours nor somebody else's. */
    if (!element->ns)
        return refuse_element(u, element, why);

    switch (u->place) {
    case PLACE_ROOT:
        return start_in_root(u, element, why);
    case PLACE_URL:
        return start_in_url(u, element, why);
    default:
        return refuse_element(u, element, why);
    }
}

static bool
is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static struct slice
trim_spaces(struct slice text)
{
    while (text.size > 0 && is_space(text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && is_space(text.data[text.size - 1]))
        text.size--;
    return text;
}

static enum status
end_text(struct urlset *u, struct problem *why)
{
    struct entry *entry = &u->md.reader->entry;
    struct change *change = &entry->change;
    struct slice text = trim_spaces(buf_slice(&u->text));

    u->place = PLACE_URL;
    switch (u->text_of) {
    case W_LOC:
        return entry_text(entry, "loc", text, &change->loc, why);
    case W_LASTMOD:
        return entry_lastmod(text, change, why);
    case W_CHANGEFREQ:
        return entry_text(entry, "changefreq", text, &change->changefreq, why);
    default:
        return entry_text(entry, "priority", text, &change->priority, why);
    }
}

static enum status
urlset_end(void *user, struct problem *why)
{
    struct urlset *u = user;

    if (u->n_foreign > 0) {
        u->n_foreign--;
        return STATUS_OK;
    }
    switch (u->place) {
    case PLACE_TEXT:
        return end_text(u, why);
    case PLACE_EMPTY:
        u->place = u->md.reader->is_in_entry ? PLACE_URL : PLACE_ROOT;
        return STATUS_OK;
    case PLACE_URL:
        u->place = PLACE_ROOT;
        return reader_entry_end(u->md.reader, why);
    default:
        u->place = PLACE_DOCUMENT;
        if (!u->has_md && u->md.reader->use != READER_RESOURCES)
            return problem(why, STATUS_INVALID, "no rs:md with a capability");
        return STATUS_OK;
    }
}

static enum status
urlset_text(void *user, struct slice text, struct problem *why)
{
    struct urlset *u = user;

    if (u->n_foreign > 0)
        return STATUS_OK;
    if (u->place == PLACE_TEXT) {
        buf_add_slice(&u->text, text);
        if (u->text.failed)
            return problem(why, STATUS_INVALID, "%s: more than %d bytes",
                           md_words[u->text_of], TEXT_MAX);
        return STATUS_OK;
    }
    text = trim_spaces(text);
    if (text.size > 0)
        return problem(why, STATUS_INVALID, "text between elements: \"%s\"",
                       problem_quote(text).text);
    return STATUS_OK;
}

static const struct xml_events events = {
    .start = urlset_start,
    .end = urlset_end,
    .text = urlset_text,
};

static void
begin_urlset(struct urlset *u)
{
    u->place = PLACE_DOCUMENT;
    u->n_foreign = 0;
    u->has_md = false;
    buf_clear(&u->text);
}

static void
urlset_close(void *state)
{
    struct urlset *u = state;

    xml_free(u->xml);
    buf_fini(&u->text);
    free(u);
}

static void *
urlset_open(struct reader *reader)
{
    struct urlset *u = calloc(1, sizeof(*u));

    if (!u)
        return NULL;
    u->md.reader = reader;
    buf_init(&u->text, TEXT_MAX);
    begin_urlset(u);
    u->xml = xml_new(&events, u, md_words, u->md.names, N_WORDS);
    if (!u->xml) {
        urlset_close(u);
        return NULL;
    }
    return u;
}

static enum status
urlset_reset(void *state)
{
    struct urlset *u = state;

    begin_urlset(u);
    return xml_reset(u->xml);
}

static enum status
urlset_feed(void *state, struct slice bytes, struct problem *why)
{
    struct urlset *u = state;

    return xml_feed(u->xml, bytes, why);
}

static enum status
urlset_finish(void *state, struct problem *why)
{
    struct urlset *u = state;

    return xml_end(u->xml, why);
}

static uint64_t
urlset_line(const void *state)
{
    const struct urlset *u = state;

    return xml_line(u->xml);
}

static size_t
urlset_held(const void *state)
{
    const struct urlset *u = state;

    return xml_held(u->xml);
}

const struct parser urlset_parser = {
    .open = urlset_open,
    .close = urlset_close,
    .reset = urlset_reset,
    .feed = urlset_feed,
    .end = urlset_finish,
    .line = urlset_line,
    .held = urlset_held,
};
