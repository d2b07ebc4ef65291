#include "proto/resourcesync/xml.h"

#include <pthread.h>

#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <libxml/uri.h>
#include <libxml/xmlerror.h>

#include "proto/resourcesync/entry_builder.h"
#include "proto/resourcesync/xml_scan.h"

/* How much the parser gets at once: between two pieces what it holds is looked
 * at, and a piece stays in the processor's cache. */
#define PIECE_SIZE 16384

/* libxml2 compares each attribute of a tag with all before it. A tag with this
 * many "=" counts as such an attack; then it costs some 10 ms. */
#define TAG_EQUALS_MAX 8192

/* Looking up a prefix costs a step for each namespace declared around it. */
#define NAMESPACES_MAX 64

/* Names of a document stay in the parser's dictionary. A larger one is thrown
 * away at the reset, so that odd names cannot pile up over documents. */
#define DICTIONARY_KEEP (64 * 1024)
#define DICTIONARY_MAX  (2 * 1024 * 1024)

static _Atomic(bool) is_scanner_off;

void
xml_scan_switch(bool is_on)
{
    is_scanner_off = !is_on;
}

struct xml {
    xmlParserCtxtPtr context;
    const struct xml_events *events;
    void *user;
    const char *const *words;
    xml_name *names;
    size_t n_names;

    enum status rc;    /* the result of a reading that ended */
    uint64_t line;     /* of its end */
    unsigned bom;      /* bytes of it that were there: utf8.h */
    size_t n_first;    /* bytes of the beginning that were examined, up to 4 */
    size_t n_brackets; /* see parse_piece */
    int depth;
    bool has_root;       /* its root has begun */
    struct problem *why; /* of the present call */
    struct buf pending;  /* given, but too little to be worth a look */

    bool is_scanning;      /* libxml2 has got nothing of this document */
    bool is_root_replayed; /* the scanner has reported the root before */
    bool is_replayed;      /* likewise its end */
    struct xml_scan scan;
};

/*
 * Memory
 *
 * Without memory libxml2 does not always say so: it finds that a namespace is
 * no URI, or leaves something out. So its allocations go through this file: if
 * one fails, all that the library says of the document is STATUS_MEMORY. They
 * end at the allocator that the library had before: a program that embeds ours
 * may have given it one of its own.
 */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local bool is_starved; /* since the library was called */

static struct {
    xmlFreeFunc free;
    xmlMallocFunc malloc;
    xmlReallocFunc realloc;
    xmlStrdupFunc strdup;
} before;

static void *
note(void *bytes, size_t size)
{
    is_starved |= !bytes && size > 0;
    return memory_got(bytes, size);
}

static void *
take(size_t size)
{
    return note(before.malloc(size), size);
}

static void *
resize(void *bytes, size_t size)
{
    return note(before.realloc(bytes, size), size);
}

static char *
duplicate(const char *text)
{
    return note(before.strdup(text), strlen(text) + 1);
}

static void
init_library(void)
{
    xmlMemGet(&before.free, &before.malloc, &before.realloc, &before.strdup);
    xmlMemSetup(before.free, take, resize, duplicate);
    xmlInitParser();
}

/* Ends the reading, unless `rc` is STATUS_OK. */
static void
stop_parser(struct xml *xml, enum status rc)
{
    if (!rc || xml->rc)
        return;
    xml->rc = rc;
    if (!xml->context) /* it has just failed to be made */
        return;
    xml->line = xml_line(xml);
    if (!xml->is_scanning)
        xmlStopParser(xml->context);
}

static void
on_start_document(void *data)
{
    struct xml *xml = data;
    const char *encoding = (const char *)xml->context->input->encoding;

    /* NULL where none or UTF-8 is declared. */
    if (encoding && strcasecmp(encoding, "US-ASCII") &&
        strcasecmp(encoding, "ASCII"))
        stop_parser(xml, problem_quoting(xml->why, STATUS_MALFORMED,
                                         "the encoding is not UTF-8",
                                         slice_of(encoding)));
}

static void
on_doctype(void *data, const xmlChar *name, const xmlChar *public_id,
           const xmlChar *system_id)
{
    struct xml *xml = data;

    (void)name;
    (void)public_id;
    (void)system_id;
    stop_parser(
        xml, problem(xml->why, STATUS_MALFORMED, "a DOCTYPE is not allowed"));
}

static void
on_start(void *data, const xmlChar *name, const xmlChar *prefix,
         const xmlChar *ns, int n_namespaces, const xmlChar **namespaces,
         int n_attributes, int n_defaulted, const xmlChar **attributes)
{
    struct xml *xml = data;
    struct xml_element element = {
        .name = name,
        .ns = ns,
        .namespaces = (const struct xml_namespace *)namespaces,
        .n_namespaces = (size_t)n_namespaces,
        .attributes = (const struct xml_attribute *)attributes,
        .n_attributes = (size_t)n_attributes,
    };
    enum status rc;

    (void)prefix;
    (void)n_defaulted;
    if (xml->rc)
        return;
    xml->has_root = true;
    if (xml->is_root_replayed) {
        xml->is_root_replayed = false;
        xml->depth++;
        return;
    }
    if (++xml->depth > XML_DEPTH_MAX)
        rc = problem(xml->why, STATUS_MALFORMED, "elements nest deeper than %d",
                     XML_DEPTH_MAX);
    else if (n_namespaces > NAMESPACES_MAX)
        rc = problem(xml->why, STATUS_MALFORMED,
                     "more than %d namespaces declared on one element",
                     NAMESPACES_MAX);
    else
        rc = xml->events->start(xml->user, &element, xml->why);
    stop_parser(xml, rc);
}

static void
on_end(void *data, const xmlChar *name, const xmlChar *prefix,
       const xmlChar *ns)
{
    struct xml *xml = data;

    (void)name;
    (void)prefix;
    (void)ns;
    if (xml->rc)
        return;
    xml->depth--;
    if (!xml->is_replayed)
        stop_parser(xml, xml->events->end(xml->user, xml->why));
    xml->is_replayed = false;
}

static void
on_text(void *data, const xmlChar *text, int size)
{
    struct xml *xml = data;
    struct slice piece = {(const char *)text, (size_t)size};

    if (!xml->rc)
        stop_parser(xml, xml->events->text(xml->user, piece, xml->why));
}

static void
on_error(void *data, xmlErrorPtr error)
{
    struct xml *xml = data;
    struct slice message;

    if (xml->rc || error->level < XML_ERR_ERROR)
        return;
    message = slice_of(error->message ? error->message : "no memory");
    while (message.size > 0 && message.data[message.size - 1] == '\n')
        message.size--;
    /* The library says "Extra content at the end of the document" of it. */
    if (error->code == XML_ERR_DOCUMENT_END &&
        (!xml->has_root || xml->depth > 0))
        message = SLICE("it ends before its root does");
    stop_parser(xml, problem(xml->why, STATUS_MALFORMED, "not well-formed: %s",
                             problem_quote(message).text));
}

/* For what the library says without a parser, about encodings. */
static void
on_stray_error(void *data, xmlErrorPtr error)
{
    (void)data;
    (void)error;
}

static const xmlSAXHandler handler = {
    .internalSubset = on_doctype,
    .startDocument = on_start_document,
    .characters = on_text,
    /* The same function, which spares the parser the question whether white
     * space matters. */
    .ignorableWhitespace = on_text,
    .cdataBlock = on_text,
    .initialized = XML_SAX2_MAGIC,
    .startElementNs = on_start,
    .endElementNs = on_end,
    .serror = on_error,
};

static enum status
open_context(struct xml *xml)
{
    xmlSAXHandler copy = handler;

    xml->rc = STATUS_OK;
    is_starved = false;
    xml->context = xmlCreatePushParserCtxt(&copy, xml, NULL, 0, NULL);
    if (!xml->context)
        return STATUS_MEMORY;
    xmlDictSetLimit(xml->context->dict, DICTIONARY_MAX);
    for (size_t i = 0; i < xml->n_names; i++)
        xml->names[i] = xmlDictLookup(xml->context->dict,
                                      (const xmlChar *)xml->words[i], -1);
    if (is_starved) {
        xmlFreeParserCtxt(xml->context);
        xml->context = NULL;
    }
    return is_starved ? STATUS_MEMORY : STATUS_OK;
}

static void
begin_document(struct xml *xml)
{
    xml->rc = STATUS_OK;
    xml->line = 0;
    xml->bom = 0;
    xml->n_first = 0;
    xml->n_brackets = 0;
    xml->depth = 0;
    xml->has_root = false;
    xml->is_scanning = !is_scanner_off;
    xml->is_root_replayed = false;
    xml->is_replayed = false;
    buf_clear(&xml->pending);
    scan_reset(&xml->scan, xml->context->dict);

    /* NOENT is what makes "&amp;" in an attribute arrive as "&"; other entities
     * there are none, since a DOCTYPE ends the reading. */
    xmlCtxtUseOptions(xml->context, XML_PARSE_NONET | XML_PARSE_NOENT);
}

struct xml *
xml_new(const struct xml_events *events, void *user, const char *const *words,
        xml_name *names, size_t n)
{
    struct xml *xml = memory_new(1, sizeof(*xml));

    pthread_once(&once, init_library);
    if (!xml)
        return NULL;
    xml->events = events;
    xml->user = user;
    xml->words = words;
    xml->names = names;
    xml->n_names = n;
    if (open_context(xml)) {
        xml_free(xml);
        return NULL;
    }
    buf_init(&xml->pending, ENTRY_BYTES_MAX);
    scan_init(&xml->scan, events, user, words, names, n);
    begin_document(xml);
    return xml;
}

void
xml_free(struct xml *xml)
{
    if (!xml)
        return;
    if (xml->context)
        xmlFreeParserCtxt(xml->context);
    buf_fini(&xml->pending);
    free(xml);
}

enum status
xml_reset(struct xml *xml)
{
    if (xml->context && xmlDictGetUsage(xml->context->dict) > DICTIONARY_KEEP) {
        xmlFreeParserCtxt(xml->context);
        xml->context = NULL;
    }
    if (xml->context) {
        is_starved = false;
        if (!xml->is_scanning &&
            (xmlCtxtResetPush(xml->context, NULL, 0, NULL, NULL) || is_starved))
            return STATUS_MEMORY;
    } else if (open_context(xml)) {
        return STATUS_MEMORY;
    }
    begin_document(xml);
    return STATUS_OK;
}

/* Bytes that have come, but of which nothing was made yet. */
static size_t
held_bytes(const struct xml *xml)
{
    const xmlParserInput *input = xml->context->input;

    if (xml->is_scanning)
        return xml->scan.held.n;
    if (xml->rc || !input || input->cur > input->end)
        return 0;
    return (size_t)(input->end - input->cur);
}

static enum status
look_at_held(struct xml *xml)
{
    const xmlParserInput *input = xml->context->input;
    size_t held = held_bytes(xml);
    size_t equals = 0;

    if (held < PIECE_SIZE)
        return STATUS_OK;
    if (held > ENTRY_BYTES_MAX)
        return problem(xml->why, STATUS_INVALID,
                       "a tag, comment or text of more than %d bytes",
                       ENTRY_BYTES_MAX);
    if (input->cur[0] != '<' || input->cur[1] == '!' || input->cur[1] == '?')
        return STATUS_OK;
    for (const xmlChar *p = input->cur; p < input->end; p++)
        equals += *p == '=';
    if (equals > TAG_EQUALS_MAX)
        return problem(xml->why, STATUS_INVALID,
                       "a tag with more than %d attributes", TAG_EQUALS_MAX);
    return STATUS_OK;
}

static void
parse_bytes(struct xml *xml, struct slice bytes, int is_end)
{
    int rc = xmlParseChunk(xml->context, bytes.data, (int)bytes.size, is_end);

    /* Not every fault is reported to on_error. */
    if (!xml->rc && (rc || !xml->context->wellFormed))
        stop_parser(xml,
                    problem(xml->why, STATUS_MALFORMED, "not well-formed"));
}

/*
 * Text must not have "]]>" in it, but the parser finds it only where it sees
 * all three at once, and it takes the beginning of a long text before the rest
 * has come. The result must not depend on the cuts between pieces: so brackets
 * at the end of a piece wait for the next bytes.
 */
static void
parse_piece(struct xml *xml, struct slice piece)
{
    char joined[2 + PIECE_SIZE];
    size_t n = 0;

    if (xml->n_brackets > 0) {
        memset(joined, ']', xml->n_brackets);
        memcpy(joined + xml->n_brackets, piece.data, piece.size);
        piece = (struct slice){joined, xml->n_brackets + piece.size};
    }
    while (n < 2 && n < piece.size && piece.data[piece.size - 1 - n] == ']')
        n++;
    xml->n_brackets = n;
    piece.size -= n;
    if (piece.size > 0)
        parse_bytes(xml, piece, 0);
}

static void
parse_all(struct xml *xml, struct slice bytes)
{
    while (bytes.size > 0 && !xml->rc) {
        struct slice piece = bytes;
        enum status rc = STATUS_OK;

        /* Every encoding that the first bytes show is not ours: UTF-16 and
         * UTF-32 have a mark or zeros, EBCDIC has another "<". */
        for (size_t i = 0; !rc && i < bytes.size && xml->n_first < 4; i++) {
            unsigned char c = (unsigned char)bytes.data[i];

            if (c == 0 || c == 0xfe || c == 0xff)
                rc = problem(xml->why, STATUS_MALFORMED,
                             "the encoding is not UTF-8");
            else if (xml->n_first++ == 0 && c != '<' &&
                     !slice_is_space((char)c))
                rc = problem(xml->why, STATUS_MALFORMED,
                             "not XML: it does not begin with \"<\"");
        }
        if (piece.size > PIECE_SIZE)
            piece.size = PIECE_SIZE;
        slice_skip(&bytes, piece.size);
        if (!rc) {
            parse_piece(xml, piece);
            rc = xml->rc ? xml->rc : look_at_held(xml);
        }
        stop_parser(xml, rc);
    }
}

/* Brings libxml2 behind bytes that the scanner has read, and reported. */
static void
parse_replay(struct xml *xml, struct slice bytes, uint64_t line)
{
    if (xml->rc)
        return;
    xml->context->input->line = (int)line;
    parse_bytes(xml, bytes, 0);
}

/* The library's handler for errors without a parser belongs to the thread, on
 * which others may use the library too: it is borrowed and given back. */
static void
parse_guarded(struct xml *xml, struct slice bytes, bool is_end)
{
    const struct xml_scan *scan = &xml->scan;
    char tag[SCAN_NAME_MAX + sizeof("</>")];
    xmlStructuredErrorFunc function = xmlStructuredError;
    void *context = xmlStructuredErrorContext;

    xmlSetStructuredErrorFunc(NULL, on_stray_error);
    if (xml->is_scanning) { /* goes on at the token that it does not know */
        xml->is_scanning = false;
        if (scan->n_root > 0) {
            xml->n_first = 4;
            xml->is_root_replayed = scan->place != SCAN_BEGIN;
            xml->is_replayed = scan->place == SCAN_BEHIND;
            parse_replay(xml, (struct slice){scan->root, scan->n_root}, 1);
            snprintf(tag, sizeof(tag), "</%.*s>", scan->root_name.size,
                     scan->root_name.text);
            if (xml->is_replayed)
                parse_replay(xml, slice_of(tag), scan->line);
            xml->context->input->line = (int)scan->line;
        }
        parse_all(xml, (struct slice){scan->held.bytes, scan->held.n});
    }
    parse_all(xml, bytes);
    if (is_end && !xml->rc)
        parse_bytes(xml, (struct slice){"]]", xml->n_brackets}, 1);
    xmlSetStructuredErrorFunc(context, function);
}

static enum status
read_bytes(struct xml *xml, struct slice bytes, bool is_end,
           struct problem *why)
{
    if (xml->rc)
        return xml->rc;
    xml->why = why;
    is_starved = false;
    /* The library takes a mark from a new parser, but not after a reset. */
    if (!bom_skip(&xml->bom, &bytes)) {
        stop_parser(xml,
                    problem(why, STATUS_MALFORMED,
                            "not XML: it begins with half a byte order mark"));
    } else if (xml->is_scanning) {
        bool is_known;
        enum status rc = scan_bytes(&xml->scan, &bytes, &is_known, why);

        if (rc)
            stop_parser(xml, rc);
        else if (!is_known || (is_end && !scan_is_whole(&xml->scan)))
            parse_guarded(xml, bytes, is_end);
    } else {
        parse_guarded(xml, bytes, is_end);
    }
    if (is_starved)
        xml->rc = problem_memory(why);
    xml->why = NULL;
    return xml->rc;
}

static enum status
read_pending(struct xml *xml, struct problem *why)
{
    struct slice pending = buf_slice(&xml->pending);

    buf_clear(&xml->pending);
    return pending.size > 0 ? read_bytes(xml, pending, false, why) : xml->rc;
}

/* libxml2 looks at a token again from its start when more of it has come. One
 * that trickles in would cost the square of its size, were it not looked at
 * only when it has grown by a part of what is there. */
enum status
xml_feed(struct xml *xml, struct slice bytes, struct problem *why)
{
    enum status rc;

    if (!xml->rc && xml->pending.size + bytes.size < held_bytes(xml) / 64) {
        buf_add_slice(&xml->pending, bytes);
        if (xml->pending.failed)
            stop_parser(xml, problem_memory(why));
        return xml->rc;
    }
    rc = read_pending(xml, why);
    return rc ? rc : read_bytes(xml, bytes, false, why);
}

enum status
xml_end(struct xml *xml, struct problem *why)
{
    enum status rc = read_pending(xml, why);

    return rc ? rc : read_bytes(xml, (struct slice){NULL, 0}, true, why);
}

enum status
xml_check_namespace(const char *ns)
{
    bool was_starved = is_starved; /* a document may be on its way */
    xmlURIPtr uri;
    enum status rc;

    pthread_once(&once, init_library);
    is_starved = false;
    uri = xmlParseURI(ns);
    rc = is_starved ? STATUS_MEMORY : uri ? STATUS_OK : STATUS_INVALID;
    xmlFreeURI(uri); /* NULL is allowed */
    is_starved |= was_starved;
    return rc;
}

uint64_t
xml_line(const struct xml *xml)
{
    if (xml->rc && xml->line > 0)
        return xml->line;
    if (xml->is_scanning)
        return xml->scan.line;
    if (!xml->context->input || xml->context->input->line < 0)
        return 0;
    return (uint64_t)xml->context->input->line;
}
