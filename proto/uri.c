#include "proto/uri.h"

#include "proto/ascii.h"
#include "proto/number.h"
#include "proto/swar.h"
#include "proto/utf8.h"

/* The kinds of bytes in a URI. This table decides about ASCII; other
 * characters are checked one at a time. */
enum {
    PLAIN = 0,
    SCHEME, /* may stand in a scheme: letters, digits, "+-." */
    REFUSED,
    LONG
};

static const unsigned char kind_of[256] = {
    [0 ... 0x20] = REFUSED, /* controls and the space */
    [0x7f] = REFUSED,       ['0' ... '9'] = SCHEME, ['A' ... 'Z'] = SCHEME,
    ['a' ... 'z'] = SCHEME, ['+'] = SCHEME,         ['-'] = SCHEME,
    ['.'] = SCHEME,         [0x80 ... 0xff] = LONG,
};

/* Not 0 if a byte is below 0x21 or above 0x7e. */
static inline uint64_t
is_not_plain(uint64_t v)
{
    return (~(v + SWAR_ONES * (0x80 - 0x21)) | (v + SWAR_ONES) | v) &
           SWAR_HIGHS;
}

/* Counts the characters; -1 if one of them may not stand in a URI. */
static long
count_characters(struct slice text)
{
    long count = 0;

    if (swar_none(text, is_not_plain, 'a'))
        return (long)text.size;
    for (size_t i = 0; i < text.size; count++) {
        unsigned char kind = kind_of[(unsigned char)text.data[i]];

        if (kind <= SCHEME) {
            i++;
        } else if (kind == LONG) {
            uint32_t c = 0;
            size_t size = utf8_read(text.data + i, text.size - i, &c);

            /* U+0080 to U+009F are controls too; XML has no U+FFFE, U+FFFF. */
            if (size == 0 || c < 0xa0 || c == 0xfffe || c == 0xffff)
                return -1;
            i += size;
        } else {
            return -1;
        }
    }
    return count;
}

/* The size of the scheme at the beginning of `text`. */
static size_t
scheme_size(struct slice text)
{
    size_t n = 0;

    if (text.size > 0 && ascii_is_letter(text.data[0]))
        while (n < text.size && kind_of[(unsigned char)text.data[n]] == SCHEME)
            n++;
    return n;
}

/* "//" and a host, where the scheme needs them. */
static bool
has_host(struct slice rest)
{
    size_t start = 2;

    if (!slice_starts(rest, "//"))
        return false;
    for (size_t i = 2; i < rest.size; i++) {
        char c = rest.data[i];

        if (c == '@')
            start = i + 1;
        if (c == '/' || c == '?' || c == '#') {
            rest.size = i;
            break;
        }
    }
    return start < rest.size && rest.data[start] != ':';
}

static enum status
check_uri(struct slice text, const char *what, long least, struct problem *why)
{
    size_t scheme;
    struct slice rest;
    long count;

    if (text.size == 0)
        return problem(why, STATUS_INVALID, "%s: empty", what);

    /* Before the count, so that a huge one costs nothing. */
    if (text.size > 4 * URI_CHARACTERS_MAX)
        goto too_long;
    count = count_characters(text);
    if (count < 0)
        return problem(why, STATUS_INVALID,
                       "%s: white space, a control character or invalid UTF-8 "
                       "in \"%s\"",
                       what, problem_quote(text).text);
    if (count > URI_CHARACTERS_MAX)
        goto too_long;

    scheme = scheme_size(text);
    if (scheme == 0 || scheme + 1 >= text.size || text.data[scheme] != ':')
        return problem(
            why, STATUS_INVALID,
            "%s: not an absolute URI, such as http://example.com/a: \"%s\"",
            what, problem_quote(text).text);

    rest = (struct slice){text.data + scheme + 1, text.size - scheme - 1};
    if ((slice_starts_word(text, "http:") ||
         slice_starts_word(text, "https:")) &&
        !has_host(rest))
        return problem(why, STATUS_INVALID, "%s: no host in \"%s\"", what,
                       problem_quote(text).text);

    if (count < least)
        return problem(why, STATUS_INVALID,
                       "%s: shorter than %ld characters: \"%s\"", what, least,
                       problem_quote(text).text);
    return STATUS_OK;

too_long:
    return problem(why, STATUS_INVALID, "%s: longer than %d characters: \"%s\"",
                   what, URI_CHARACTERS_MAX, problem_quote(text).text);
}

enum status
uri_check(struct slice text, const char *what, struct problem *why)
{
    return check_uri(text, what, 0, why);
}

enum status
uri_check_loc(struct slice text, struct problem *why)
{
    return check_uri(text, "loc", URI_CHARACTERS_MIN, why);
}

bool
set_name_is_valid(struct slice name)
{
    return name.size > 0 && name.size <= SET_NAME_MAX &&
           !memchr("._-", name.data[0], 3) &&
           slice_is_of(name, "abcdefghijklmnopqrstuvwxyz0123456789._-");
}

bool
uri_is_unreserved(char c)
{
    return ascii_is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

char *
uri_put_escape(char to[3], char c)
{
    static const char digits[] = "0123456789ABCDEF";

    *to++ = '%';
    *to++ = digits[(unsigned char)c >> 4];
    *to++ = digits[(unsigned char)c & 15];
    return to;
}

size_t
uri_encode(struct slice text, char *to)
{
    char *at = to;

    for (size_t i = 0; i < text.size; i++)
        if (uri_is_unreserved(text.data[i]))
            *at++ = text.data[i];
        else
            at = uri_put_escape(at, text.data[i]);
    return (size_t)(at - to);
}

void
uri_add_escape(struct buf *to, char c)
{
    char escape[3];

    uri_put_escape(escape, c);
    buf_add(to, escape, sizeof(escape));
}

void
uri_add_sendable(struct buf *to, struct slice reference)
{
    struct slice text = slice_without_spaces(reference);

    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        struct slice rest = slice_from(text, i);

        if (slice_is_space((char)c)) {
            size_t n = 0;
            bool is_broken = false;

            for (; slice_is_space(rest.data[n]); n++)
                is_broken |= rest.data[n] != ' ';
            for (size_t k = 0; k < n && !is_broken; k++)
                uri_add_escape(to, ' ');
            i += n - 1;
        } else if (c >= 0x7f || c <= ' ' || memchr("\"<>\\^`{|}", c, 9) ||
                   (c == '%' && uri_escape(rest) < 0)) {
            uri_add_escape(to, (char)c);
        } else {
            buf_add(to, rest.data, 1);
        }
    }
}

int
uri_escape(struct slice text)
{
    unsigned high, low;

    if (text.size < 3 || text.data[0] != '%')
        return -1;
    high = hex_value(text.data[1]);
    low = hex_value(text.data[2]);
    return high > 15 || low > 15 ? -1 : (int)(high << 4 | low);
}

long
uri_decode(struct slice text, char *to)
{
    char *start = to;

    while (text.size > 0) {
        bool is_escape = text.data[0] == '%';
        size_t taken = is_escape ? 3 : 1;
        int c = is_escape ? uri_escape(text) : (unsigned char)text.data[0];

        if (c <= 0) /* no escape, or a NUL */
            return -1;
        *to++ = (char)c;
        slice_skip(&text, taken);
    }
    return to - start;
}

/* Relative references */

/* The parts of a reference (RFC 3986 appendix B).
 *
 *     scheme ":" "//" authority path "?" query "#" fragment
 *
 * A part that is there may be empty. */
struct parts {
    bool has_scheme, has_authority, has_query, has_fragment;
    struct slice scheme, authority, path, query, fragment;
};

static struct parts
parts_of(struct slice text)
{
    struct parts p = {.has_scheme = false};
    size_t scheme = scheme_size(text);
    struct slice rest = text;

    p.has_scheme = scheme > 0 && scheme < text.size && text.data[scheme] == ':';
    if (p.has_scheme) {
        p.scheme = (struct slice){text.data, scheme};
        slice_skip(&rest, scheme + 1);
    }
    p.has_authority = slice_skip_start(&rest, "//");
    if (p.has_authority)
        p.authority = slice_take_until(&rest, "/?#");
    p.path = slice_take_until(&rest, "?#");
    p.has_query = slice_take_char(&rest, '?');
    if (p.has_query)
        p.query = slice_take_until(&rest, "#");
    p.has_fragment = slice_take_char(&rest, '#');
    p.fragment = rest;
    return p;
}

/* Section 5.2.4, on the path that begins at `start` and ends the buffer, in
 * place: the result is never longer. */
static void
remove_dots(struct buf *path, size_t start)
{
    char *text = path->data;
    size_t in = start, out = start;

    while (in < path->size) {
        struct slice rest = {text + in, path->size - in};
        bool is_last_up = slice_is(rest, "/..");

        if (slice_starts(rest, "../")) {
            in += 3;
        } else if (slice_starts(rest, "./") || slice_starts(rest, "/./")) {
            in += 2;
        } else if (slice_is(rest, "/.")) {
            text[++in] = '/';
        } else if (slice_starts(rest, "/../") || is_last_up) {
            in += is_last_up ? 2 : 3;
            text[in] = '/';
            while (out > start && text[--out] != '/')
                ;
        } else if (slice_is(rest, ".") || slice_is(rest, "..")) {
            in = path->size;
        } else {
            do
                text[out++] = text[in++];
            while (in < path->size && text[in] != '/');
        }
    }
    path->size = out;
}

void
uri_resolve(struct buf *to, struct slice base, struct slice reference)
{
    struct parts b = parts_of(base);
    struct parts r = parts_of(reference);
    const struct parts *authority = r.has_scheme || r.has_authority ? &r : &b;
    bool is_same_path = authority == &b && r.path.size == 0;
    const struct parts *query = is_same_path && !r.has_query ? &b : &r;
    size_t start;

    buf_add_slice(to, r.has_scheme ? r.scheme : b.scheme);
    BUF_ADD(to, ":");
    if (authority->has_authority) {
        BUF_ADD(to, "//");
        buf_add_slice(to, authority->authority);
    }

    start = to->size;
    if (is_same_path) {
        buf_add_slice(to, b.path);
    } else {
        if (authority != &r && r.path.data[0] != '/') {
            /* Section 5.2.3: beside the last segment of the base's. */
            size_t kept = b.path.size;

            while (kept > 0 && b.path.data[kept - 1] != '/')
                kept--;
            if (b.has_authority && b.path.size == 0)
                BUF_ADD(to, "/");
            buf_add(to, b.path.data, kept);
        }
        buf_add_slice(to, r.path);
        if (!to->failed)
            remove_dots(to, start);
    }

    if (query->has_query) {
        BUF_ADD(to, "?");
        buf_add_slice(to, query->query);
    }
    if (r.has_fragment) {
        BUF_ADD(to, "#");
        buf_add_slice(to, r.fragment);
    }
}
