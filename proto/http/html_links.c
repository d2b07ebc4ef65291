#include "proto/http/html_links.h"

#include "proto/ascii.h"
#include "proto/buf.h"
#include "proto/number.h"
#include "proto/utf8.h"

/* A raw value with its references may be longer than the decoded one. */
#define VALUE_AS_IT_CAME_MAX (8 * HTML_VALUE_MAX)

struct page {
    struct slice rest;
    html_link_fn *on_link;
    void *user;
    bool has_base;
    unsigned n_templates; /* that we are within: nothing in them counts */
    struct buf rel, href;
};

struct tag {
    struct slice name;
    struct slice rel, href; /* as they came; NULL: not there */
};

#define SPACES " \t\n\f\r"

static bool
is_space(char c)
{
    return memchr(SPACES, c, sizeof(SPACES) - 1) != NULL;
}

static void
skip_bytes(struct slice *rest, size_t size)
{
    if (size > rest->size)
        size = rest->size;
    slice_skip(rest, size);
}

static void
skip_spaces(struct slice *rest)
{
    while (rest->size > 0 && is_space(rest->data[0]))
        skip_bytes(rest, 1);
}

/* Everything up to `end`, and `end`; all where there is none. */
static void
skip_past(struct slice *rest, const char *end)
{
    if (!slice_skip_past(rest, end))
        skip_bytes(rest, rest->size);
}

/* Does it begin with `word`, in whatever case, and end there? */
static bool
is_word_at(struct slice rest, const char *word)
{
    size_t size = strlen(word);

    return rest.size > size && !strncasecmp(rest.data, word, size) &&
           (is_space(rest.data[size]) || rest.data[size] == '/' ||
            rest.data[size] == '>');
}

/* Character references: those that stand in URLs. Others stay as they are. */

/* "&#65;", "&#x41;" */
static bool
take_number(struct slice *rest, struct buf *to)
{
    bool is_hex = rest->size > 2 && (rest->data[2] | 0x20) == 'x';
    unsigned base = is_hex ? 16 : 10;
    size_t first = is_hex ? 3 : 2;
    size_t at = first;
    char bytes[UTF8_SIZE_MAX];
    uint32_t c = 0;

    for (; at < rest->size && hex_value(rest->data[at]) < base; at++)
        if (c <= 0x10ffff)
            c = c * base + hex_value(rest->data[at]);
    if (at == first)
        return false;
    at += at < rest->size && rest->data[at] == ';';
    if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        c = 0xfffd;
    buf_add(to, bytes, utf8_write(bytes, c));
    skip_bytes(rest, at);
    return true;
}

static bool
take_reference(struct slice *rest, struct buf *to)
{
    static const struct {
        const char *name;
        const char *means;
    } named[] = {
        {"&amp;", "&"},    {"&AMP;", "&"},    {"&lt;", "<"},
        {"&gt;", ">"},     {"&quot;", "\""},  {"&apos;", "'"},
        {"&percnt;", "%"}, {"&num;", "#"},    {"&quest;", "?"},
        {"&colon;", ":"},  {"&equals;", "="}, {"&sol;", "/"},
        {"&period;", "."}, {"&comma;", ","},  {"&semi;", ";"},
        {"&plus;", "+"},   {"&Tab;", "\t"},   {"&NewLine;", "\n"},
        {"&commat;", "@"}, {"&lowbar;", "_"},
    };

    if (slice_starts(*rest, "&#"))
        return take_number(rest, to);
    for (size_t i = 0; i < N_ELEMENTS(named); i++)
        if (slice_skip_start(rest, named[i].name)) {
            buf_add_text(to, named[i].means);
            return true;
        }
    return false;
}

/* The value without references and without white space around it. */
static struct slice
unescape_value(struct slice value, struct buf *to)
{
    struct slice text;

    buf_clear(to);
    while (value.size > 0) {
        if (value.data[0] != '&' || !take_reference(&value, to)) {
            buf_add(to, value.data, 1);
            skip_bytes(&value, 1);
        }
    }
    text = buf_slice(to);
    skip_spaces(&text);
    while (text.size > 0 && is_space(text.data[text.size - 1]))
        text.size--;
    return text;
}

/* Tags */

/* A tag from its name on; false: it does not end. */
static bool
take_tag(struct slice *rest, struct tag *tag)
{
    *tag = (struct tag){.name = slice_take_until(rest, SPACES "/>")};
    while (rest->size > 0) {
        struct slice name = {rest->data, 1}, value = {"", 0};

        if (rest->data[0] == '>') {
            skip_bytes(rest, 1);
            return true;
        }
        if (rest->data[0] == '/' || is_space(rest->data[0])) {
            skip_bytes(rest, 1);
            continue;
        }
        skip_bytes(rest, 1); /* a "=" here is the name's */
        name.size += slice_take_until(rest, SPACES "/>=").size;
        skip_spaces(rest);
        if (rest->size > 0 && rest->data[0] == '=') {
            char quote;

            skip_bytes(rest, 1);
            skip_spaces(rest);
            quote = rest->size > 0 ? rest->data[0] : '>';
            if (quote == '"' || quote == '\'') {
                skip_bytes(rest, 1);
                value = slice_take(rest, quote);
            } else {
                value = slice_take_until(rest, SPACES ">");
            }
        }
        /* Of two of a name the first counts. */
        if (slice_is_word(name, "rel") && !tag->rel.data)
            tag->rel = value;
        else if (slice_is_word(name, "href") && !tag->href.data)
            tag->href = value;
    }
    return false;
}

/* Past "<!", "<?" or a stray "</". */
static void
skip_declaration(struct slice *rest)
{
    if (slice_skip_start(rest, "<!-->") || slice_skip_start(rest, "<!--->"))
        return;
    if (slice_skip_start(rest, "<!--"))
        /* To behind "-->" or "--!>", whichever comes first, in one look. */
        do {
            skip_past(rest, "--");
            while (slice_take_char(rest, '-'))
                ;
        } while (rest->size > 0 && rest->data[0] != '>' &&
                 !slice_starts(*rest, "!>"));
    skip_past(rest, ">");
}

/* Past the end of an element that has no tags in it, only text. */
static void
skip_raw(struct slice *rest, struct slice name)
{
    char end[16] = "</";
    struct tag tag;

    memcpy(end + 2, name.data, name.size);
    end[2 + name.size] = '\0';
    while (rest->size > 0 && !is_word_at(*rest, end))
        skip_bytes(rest, 1);
    skip_bytes(rest, 2);
    (void)take_tag(rest, &tag);
}

/* A script may have "<!--" in it, and then "<script>" and its "</script>". */
static void
skip_script(struct slice *rest)
{
    bool is_escaped = false, is_doubly = false;
    struct tag tag;

    for (; rest->size > 0; skip_bytes(rest, 1)) {
        if (!is_escaped && slice_starts(*rest, "<!--")) {
            is_escaped = true;
            skip_bytes(rest, 1); /* "<!-->" is both its begin and its end */
        } else if (is_escaped && slice_starts(*rest, "-->")) {
            is_escaped = is_doubly = false;
        } else if (is_escaped && !is_doubly && is_word_at(*rest, "<script")) {
            is_doubly = true;
        } else if (is_word_at(*rest, "</script")) {
            if (!is_doubly)
                break;
            is_doubly = false;
        }
    }
    skip_bytes(rest, 2);
    (void)take_tag(rest, &tag);
}

/* The head */

static bool
is_one_of(struct slice name, const char *const *words)
{
    for (; *words; words++)
        if (slice_is_word(name, *words))
            return true;
    return false;
}

static void
report_link(struct page *page, const struct tag *tag, bool is_base)
{
    struct html_link link = {.is_base = is_base};

    if (is_base && (page->has_base || !tag->href.data))
        return;
    if (tag->rel.size > VALUE_AS_IT_CAME_MAX ||
        tag->href.size > VALUE_AS_IT_CAME_MAX)
        return;
    link.rel = unescape_value(tag->rel, &page->rel);
    link.href = unescape_value(tag->href, &page->href);
    if (page->rel.failed || page->href.failed)
        return;
    page->has_base = page->has_base || is_base;
    page->on_link(&link, page->user);
}

/* A tag that begins something; false: the body begins. */
static bool
on_begin(struct page *page, const struct tag *tag)
{
    static const char *const raw[] = {"title", "style", "noframes", "noscript",
                                      NULL};
    static const char *const raw_of_bodies[] = {"textarea", "xmp", "iframe",
                                                "noembed", NULL};
    static const char *const plain[] = {"html",     "head",    "meta",
                                        "basefont", "bgsound", NULL};

    if (slice_is_word(tag->name, "template"))
        page->n_templates++;
    else if (slice_is_word(tag->name, "script"))
        skip_script(&page->rest);
    else if (is_one_of(tag->name, raw))
        skip_raw(&page->rest, tag->name);
    else if (page->n_templates > 0) {
        if (is_one_of(tag->name, raw_of_bodies))
            skip_raw(&page->rest, tag->name);
        return !slice_is_word(tag->name, "plaintext");
    } else if (slice_is_word(tag->name, "link"))
        report_link(page, tag, false);
    else if (slice_is_word(tag->name, "base"))
        report_link(page, tag, true);
    else
        return is_one_of(tag->name, plain);
    return true;
}

/* Goes on by one tag, comment or text; false: the head is over. */
static bool
step_tag(struct page *page)
{
    static const char *const ending[] = {"head", "body", "html", "br", NULL};
    struct slice *rest = &page->rest;
    bool is_end = slice_starts(*rest, "</");
    size_t name = is_end ? 2 : 1;
    struct tag tag;

    if (rest->data[0] != '<') {
        bool is_text = !is_space(rest->data[0]);

        skip_bytes(rest, 1);
        return !is_text || page->n_templates > 0;
    }
    if (rest->size > name && ascii_is_letter(rest->data[name])) {
        skip_bytes(rest, name);
        if (!take_tag(rest, &tag))
            return false;
        if (!is_end)
            return on_begin(page, &tag);
        if (page->n_templates == 0)
            return !is_one_of(tag.name, ending);
        page->n_templates -= slice_is_word(tag.name, "template");
        return true;
    }
    if (is_end || (rest->size > 1 && memchr("!?", rest->data[1], 2))) {
        skip_declaration(rest);
        return true;
    }
    skip_bytes(rest, 1); /* "<" alone is text */
    return page->n_templates > 0;
}

void
html_read(struct slice document, html_link_fn *on_link, void *user)
{
    struct page page = {.rest = document, .on_link = on_link, .user = user};

    buf_init(&page.rel, HTML_VALUE_MAX);
    buf_init(&page.href, HTML_VALUE_MAX);
    slice_skip_start(&page.rest, BYTE_ORDER_MARK);
    while (page.rest.size > 0 && step_tag(&page))
        ;
    buf_fini(&page.rel);
    buf_fini(&page.href);
}

bool
html_is_page(struct slice document)
{
    static const char doctype[] = "<!doctype";
    struct slice rest = document;

    slice_skip_start(&rest, BYTE_ORDER_MARK);
    for (;;) {
        skip_spaces(&rest);
        if (is_word_at(rest, "<html"))
            return true;
        if (is_word_at(rest, doctype)) {
            skip_bytes(&rest, sizeof(doctype) - 1);
            skip_spaces(&rest);
            return is_word_at(rest, "html");
        }
        if (!slice_starts(rest, "<!--") && !slice_starts(rest, "<?"))
            return false;
        skip_declaration(&rest);
    }
}
