#include "proto/resourcesync/xml_scan.h"

#include <libxml/parser.h>

#include "proto/resourcesync/vocab.h"

/* The longest declaration that is known. */
#define DECLARATION_MAX (SCAN_ROOT_MAX - SCAN_TOKEN_MAX)

/* The token that is read: from `at`, which moves, to the `end` of what has
 * come. */
struct reading {
    struct xml_scan *scan;
    const char *at;
    const char *end;
    uint64_t line;
    char *room;     /* of scan->values */
    enum status rc; /* of an event */
    struct problem *why;
};

/* Words */

static size_t
slot_of(struct slice word)
{
    return (word.size * 7 + (unsigned char)word.data[0] * 31u +
            (unsigned char)word.data[word.size - 1]) %
           SCAN_SLOTS;
}

static xml_name
find_word(const struct xml_scan *scan, struct slice word)
{
    for (size_t i = slot_of(word); scan->slots[i]; i = (i + 1) % SCAN_SLOTS) {
        size_t index = scan->slots[i] - 1u;

        if (scan->sizes[index] == word.size &&
            !memcmp(scan->names[index], word.data, word.size))
            return scan->names[index];
    }
    return xmlDictLookup(scan->dict, (const xmlChar *)word.data,
                         (int)word.size);
}

void
scan_init(struct xml_scan *scan, const struct xml_events *events, void *user,
          const char *const *words, xml_name *names, size_t n)
{
    scan->events = events;
    scan->user = user;
    scan->names = names;
    memset(scan->slots, 0, sizeof(scan->slots));
    for (size_t i = 0; i < n && i < SCAN_WORDS_MAX; i++) {
        size_t slot = slot_of(slice_of(words[i]));

        while (scan->slots[slot])
            slot = (slot + 1) % SCAN_SLOTS;
        scan->slots[slot] = (uint8_t)(i + 1);
        scan->sizes[i] = (uint8_t)strlen(words[i]);
    }
}

void
scan_reset(struct xml_scan *scan, struct _xmlDict *dict)
{
    scan->dict = dict;
    scan->place = SCAN_BEGIN;
    scan->n_prefixes = 0;
    scan->line = 1;
    scan->held.n = 0;
    scan->n_root = 0;
}

/* Characters */

enum { NAME_START = 1, NAME_CHAR = 2 };

/* Names are ASCII here; others are left to libxml2. */
static const uint8_t name_chars[256] = {
    ['a' ... 'z'] = NAME_START | NAME_CHAR,
    ['A' ... 'Z'] = NAME_START | NAME_CHAR,
    ['_'] = NAME_START | NAME_CHAR,
    ['0' ... '9'] = NAME_CHAR,
    ['-'] = NAME_CHAR,
    ['.'] = NAME_CHAR,
};

static inline bool
is_name_start(char c)
{
    return name_chars[(unsigned char)c] & NAME_START;
}

/* The same as scan_find_in_quotes, for a value in apostrophes. */
static inline uint64_t
find_in_apostrophes(uint64_t v)
{
    return (v & SWAR_HIGHS) | swar_below(v, ' ') | swar_equal(v, '<') |
           swar_equal(v | SWAR_ONES * ('\'' ^ '&'), '\'' | '&');
}

enum token
scan_entity(const char **at, const char *end, char *character)
{
    static const struct {
        char name[7];
        char character;
    } entities[] = {{"&amp;", '&'},
                    {"&lt;", '<'},
                    {"&gt;", '>'},
                    {"&quot;", '"'},
                    {"&apos;", '\''}};

    size_t size = (size_t)(end - *at);

    for (size_t i = 0; i < N_ELEMENTS(entities); i++) {
        size_t n = strlen(entities[i].name);

        if (size >= n && !memcmp(*at, entities[i].name, n)) {
            *character = entities[i].character;
            *at += n;
            return TOKEN_TAKEN;
        }
    }
    return size < 6 && !memchr(*at, ';', size) ? TOKEN_CUT : TOKEN_UNKNOWN;
}

/* Names and attributes */

struct scan_qname {
    struct slice prefix; /* empty: none */
    struct slice name;
    struct slice all;
};

static struct slice
read_ncname(struct reading *r)
{
    const char *from = r->at;

    if (r->at < r->end && is_name_start(*r->at))
        while (r->at < r->end && name_chars[(unsigned char)*r->at] & NAME_CHAR)
            r->at++;
    return slice_between(from, r->at);
}

static enum token
read_qname(struct reading *r, struct scan_qname *q)
{
    const char *from = r->at;

    q->prefix = (struct slice){from, 0};
    q->name = read_ncname(r);
    if (r->at < r->end && *r->at == ':' && q->name.size > 0) {
        q->prefix = q->name;
        r->at++;
        q->name = read_ncname(r);
    }
    if (r->at == r->end)
        return TOKEN_CUT;
    q->all = slice_between(from, r->at);
    return q->name.size > 0 && q->all.size <= SCAN_NAME_MAX ? TOKEN_TAKEN
                                                            : TOKEN_UNKNOWN;
}

/* Namespaces */

static void
copy_name(struct scan_name *to, struct slice from)
{
    to->size = (uint8_t)from.size;
    memcpy(to->text, from.data, from.size);
}

static inline bool
is_name(const struct scan_name *name, struct slice text)
{
    return name->size == text.size && !memcmp(name->text, text.data, text.size);
}

static const struct scan_prefix *
find_prefix(const struct xml_scan *scan, struct slice prefix)
{
    for (size_t i = 0; i < scan->n_prefixes; i++)
        if (is_name(&scan->prefixes[i].text, prefix))
            return &scan->prefixes[i];
    return NULL;
}

/* A declaration of the root. Only these namespaces are usual. */
static enum token
declare(struct xml_scan *scan, struct slice prefix, struct slice ns)
{
    struct scan_prefix *p = &scan->prefixes[scan->n_prefixes];

    if (scan->n_prefixes == SCAN_PREFIXES_MAX || find_prefix(scan, prefix) ||
        slice_starts(prefix, "xml") ||
        (!slice_is(ns, NS_SITEMAP) && !slice_is(ns, NS_RS) &&
         !slice_is(ns, NS_TIDINGS)))
        return TOKEN_UNKNOWN;
    copy_name(&p->text, prefix);
    p->ns = find_word(scan, ns);
    p->prefix = prefix.size > 0 ? find_word(scan, prefix) : NULL;
    if (!p->ns || (prefix.size > 0 && !p->prefix))
        return TOKEN_UNKNOWN;
    scan->n_prefixes++;
    return TOKEN_TAKEN;
}

/* Tags */

struct tag {
    struct scan_qname name;
    size_t n;
    struct scan_qname names[SCAN_ATTRIBUTES_MAX];
    struct xml_attribute attributes[SCAN_ATTRIBUTES_MAX];
    bool is_empty; /* "/>" */
};

static enum token
add_attribute(struct reading *r, struct tag *tag)
{
    struct scan_qname *q = &tag->names[tag->n];
    struct slice value;
    enum token token;
    char quote;

    if (tag->n == SCAN_ATTRIBUTES_MAX)
        return TOKEN_UNKNOWN;
    token = read_qname(r, q);
    if (token)
        return token;
    if (r->end - r->at < 3)
        return TOKEN_CUT;
    quote = r->at[1];
    if (r->at[0] != '=' || (quote != '"' && quote != '\''))
        return TOKEN_UNKNOWN;
    r->at += 2;
    token = scan_characters(&r->at, r->end,
                            quote == '"' ? scan_find_in_quotes
                                         : find_in_apostrophes,
                            quote, &r->room, &value);
    if (token)
        return token;
    r->at++;
    if (slice_is(q->prefix, "xmlns") || slice_is(q->all, "xmlns"))
        return r->scan->place != SCAN_BEGIN ? TOKEN_UNKNOWN
               : q->prefix.size > 0         ? declare(r->scan, q->name, value)
                                    : declare(r->scan, q->prefix, value);
    tag->attributes[tag->n].value = (const unsigned char *)value.data;
    tag->attributes[tag->n].end =
        (const unsigned char *)value.data + value.size;
    tag->n++;
    return TOKEN_TAKEN;
}

/* Gives the attributes their names. The same one twice is an error, which
 * libxml2 reports. */
static enum token
name_attributes(const struct xml_scan *scan, struct tag *tag)
{
    for (size_t i = 0; i < tag->n; i++) {
        const struct scan_qname *q = &tag->names[i];
        struct xml_attribute *a = &tag->attributes[i];

        a->prefix = a->ns = NULL;
        if (q->prefix.size > 0) {
            const struct scan_prefix *p = find_prefix(scan, q->prefix);

            if (!p)
                return TOKEN_UNKNOWN;
            a->prefix = p->prefix;
            a->ns = p->ns;
        }
        a->name = find_word(scan, q->name);
        if (!a->name)
            return TOKEN_UNKNOWN;
        for (size_t j = 0; j < i; j++)
            if (tag->attributes[j].name == a->name &&
                tag->attributes[j].ns == a->ns)
                return TOKEN_UNKNOWN;
    }
    return TOKEN_TAKEN;
}

/* Reads a start tag, at "<", up to and without its end. */
static enum token
read_tag(struct reading *r, struct tag *tag)
{
    enum token token;

    tag->n = 0;
    r->at++;
    token = read_qname(r, &tag->name);
    while (!token) {
        bool is_apart = scan_blanks(&r->at, r->end, &r->line);

        if (r->at == r->end)
            return TOKEN_CUT;
        if (*r->at == '>' || *r->at == '/')
            break;
        if (!is_apart)
            return TOKEN_UNKNOWN;
        token = add_attribute(r, tag);
    }
    if (token)
        return token;
    tag->is_empty = *r->at == '/';
    if (!tag->is_empty) {
        r->at++;
        return TOKEN_TAKEN;
    }
    if (r->end - r->at < 2)
        return TOKEN_CUT;
    if (r->at[1] != '>')
        return TOKEN_UNKNOWN;
    r->at += 2;
    return TOKEN_TAKEN;
}

static enum token
end_element(struct reading *r)
{
    r->rc = r->scan->events->end(r->scan->user, r->why);
    return r->rc ? TOKEN_REFUSED : TOKEN_TAKEN;
}

/* The start tag of the root, or a child of it that has no content. */
static enum token
start_tag(struct reading *r)
{
    struct xml_scan *scan = r->scan;
    bool is_root = scan->place == SCAN_BEGIN;
    struct tag tag;
    struct xml_element element;
    const struct scan_prefix *prefix;
    enum token token;

    if (is_root) /* also when more of the tag has come */
        scan->n_prefixes = 0;
    token = read_tag(r, &tag);
    if (!token)
        token = name_attributes(scan, &tag);
    if (token)
        return token;
    prefix = find_prefix(scan, tag.name.prefix);
    if ((tag.name.prefix.size > 0 && !prefix) || tag.is_empty == is_root)
        return TOKEN_UNKNOWN;
    element = (struct xml_element){
        .name = find_word(scan, tag.name.name),
        .ns = prefix ? prefix->ns : NULL,
        .attributes = tag.attributes,
        .n_attributes = tag.n,
    };
    if (!element.name)
        return TOKEN_UNKNOWN;

    if (is_root) {
        copy_name(&scan->root_name, tag.name.all);
        scan->place = SCAN_INSIDE;
    }
    scan->line = r->line;
    r->rc = scan->events->start(scan->user, &element, r->why);
    if (r->rc)
        return TOKEN_REFUSED;
    return tag.is_empty ? end_element(r) : TOKEN_TAKEN;
}

/* The end of the root. */
static enum token
end_tag(struct reading *r)
{
    struct xml_scan *scan = r->scan;
    struct scan_qname q;
    enum token token;

    r->at += 2;
    token = read_qname(r, &q);
    if (token)
        return token;
    scan_blanks(&r->at, r->end, &r->line);
    if (r->at == r->end)
        return TOKEN_CUT;
    if (*r->at++ != '>' || !is_name(&scan->root_name, q.all))
        return TOKEN_UNKNOWN;
    scan->line = r->line;
    scan->place = SCAN_BEHIND;
    return end_element(r);
}

/* White space before a tag: nobody looks at it. Before a CDATA section it would
 * belong to its text. */
static enum token
read_blank(struct reading *r)
{
    scan_blanks(&r->at, r->end, &r->line);
    if (r->end - r->at < 2)
        return TOKEN_CUT;
    if (*r->at != '<' || (!is_name_start(r->at[1]) && r->at[1] != '/'))
        return TOKEN_UNKNOWN;
    r->scan->line = r->line;
    return TOKEN_TAKEN;
}

/* Tokens */

/* <?xml version="1.0" encoding="UTF-8"?> at the very beginning. */
static enum token
read_declaration(struct reading *r)
{
    static const char *const declarations[] = {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>",
        "<?xml version='1.0' encoding='UTF-8'?>",
        "<?xml version='1.0' encoding='utf-8'?>",
        "<?xml version=\"1.0\"?>",
    };
    struct slice rest = slice_between(r->at, r->end);

    for (size_t i = 0; i < N_ELEMENTS(declarations); i++) {
        if (slice_starts(rest, declarations[i])) {
            r->at += strlen(declarations[i]);
            return TOKEN_TAKEN;
        }
        if (!strncmp(declarations[i], rest.data, rest.size))
            return TOKEN_CUT;
    }
    return TOKEN_UNKNOWN;
}

static bool
declares(const struct xml_scan *scan, const char *prefix, const char *ns)
{
    const struct scan_prefix *p = find_prefix(scan, slice_of(prefix));

    return p && slice_is(xml_slice(p->ns), ns);
}

/* The declaration, or white space and the start tag of the root: a replay needs
 * them. */
static enum token
read_beginning(struct reading *r)
{
    struct xml_scan *scan = r->scan;
    const char *from = r->at;
    enum token token;

    if (scan->n_root > 0)
        scan_blanks(&r->at, r->end, &r->line);
    if (r->end - r->at < 4)
        return TOKEN_CUT;
    /* libxml2 finds the encoding in the first four bytes, so the scanner looks
     * at all four. */
    if (r->at[0] != '<' || r->at[2] == '>')
        return TOKEN_UNKNOWN;
    if (scan->n_root == 0 && r->at[1] == '?')
        token = read_declaration(r);
    else if (is_name_start(r->at[1]))
        token = start_tag(r);
    else
        token = TOKEN_UNKNOWN;
    if (token)
        return token;
    memcpy(scan->root + scan->n_root, from, (size_t)(r->at - from));
    scan->n_root += (size_t)(r->at - from);
    if (scan->place == SCAN_INSIDE) {
        scan->is_usual = scan->events->child && declares(scan, "", NS_SITEMAP);
        scan->known = (struct xml_known){declares(scan, "rs", NS_RS),
                                         declares(scan, "td", NS_TIDINGS)};
    }
    return TOKEN_TAKEN;
}

static enum token
read_token(struct reading *r)
{
    struct xml_scan *scan = r->scan;

    r->room = scan->values;
    r->line = scan->line;
    if (scan->place == SCAN_BEGIN)
        return read_beginning(r);
    if (*r->at != '<')
        return read_blank(r);
    if (scan->place == SCAN_BEHIND)
        return TOKEN_UNKNOWN;
    if (r->end - r->at < 2)
        return TOKEN_CUT;
    if (scan->is_usual && r->at[1] == 'u') {
        /* The receiver of events reads a child of the root at once. */
        struct slice bytes = slice_between(r->at, r->end);
        size_t size = 0;
        enum token token = scan->events->child(
            scan->user, bytes, scan->known, &size, &scan->line, &r->rc, r->why);

        if (token == TOKEN_TAKEN)
            r->at += size;
        if (token != TOKEN_UNKNOWN &&
            (token != TOKEN_CUT || bytes.size < SCAN_TOKEN_MAX))
            return token;
    }
    if (r->at[1] == '/')
        return end_tag(r);
    return is_name_start(r->at[1]) ? start_tag(r) : TOKEN_UNKNOWN;
}

enum status
scan_bytes(struct xml_scan *scan, struct slice *bytes, bool *is_known,
           struct problem *why)
{
    struct reading r = {.scan = scan, .why = why};
    struct scan_held *held = &scan->held;
    enum token token = TOKEN_TAKEN;

    while (token == TOKEN_TAKEN && bytes->size > 0) {
        struct slice input = *bytes;
        size_t size = sizeof(held->bytes) - held->n;

        if (held->n > 0) { /* the first new bytes go behind those held */
            if (size > bytes->size)
                size = bytes->size;
            memcpy(held->bytes + held->n, bytes->data, size);
            input = (struct slice){held->bytes, held->n + size};
        }
        r.at = input.data;
        r.end = input.data +
                (input.size < SCAN_TOKEN_MAX ? input.size : SCAN_TOKEN_MAX);
        token = read_token(&r);
        size = (size_t)(r.at - input.data);
        /* A text ends before the tag whose first byte is held with it. */
        if (token == TOKEN_TAKEN && size < held->n) {
            held->n -= size;
            memmove(held->bytes, held->bytes + size, held->n);
        } else if (token == TOKEN_TAKEN) {
            slice_skip(bytes, size - held->n);
            held->n = 0;
        } else if (token == TOKEN_CUT &&
                   bytes->size < sizeof(held->bytes) - held->n) {
            /* The input ends within a token: all of it is held. */
            if (held->n == 0)
                memcpy(held->bytes, bytes->data, bytes->size);
            held->n += bytes->size;
            slice_skip(bytes, bytes->size);
        } else if (token == TOKEN_CUT) {
            token = TOKEN_UNKNOWN;
        }
    }
    *is_known = token != TOKEN_UNKNOWN;
    return token == TOKEN_REFUSED ? r.rc : STATUS_OK;
}

bool
scan_is_whole(const struct xml_scan *scan)
{
    return scan->place == SCAN_BEHIND &&
           slice_without_spaces((struct slice){scan->held.bytes, scan->held.n})
                   .size == 0;
}
