#include "proto/uri.h"

/* The parts of a reference (RFC 3986 appendix B).
 *
 *     scheme ":" "//" authority path "?" query "#" fragment
 *
 * A part that is there may be empty. */
struct parts {
    bool has_scheme, has_authority, has_query, has_fragment;
    struct slice scheme, authority, path, query, fragment;
};

static bool
is_scheme(struct slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!is_letter && (i == 0 || !((c >= '0' && c <= '9') || c == '+' ||
                                       c == '-' || c == '.')))
            return false;
    }
    return text.size > 0;
}

/* Takes what stands before the first of `ends` off the front; that stays. */
static struct slice
take_until(struct slice *rest, const char *ends)
{
    struct slice taken = {rest->data, 0};

    while (taken.size < rest->size &&
           !memchr(ends, rest->data[taken.size], strlen(ends)))
        taken.size++;
    if (taken.size > 0) {
        rest->data += taken.size;
        rest->size -= taken.size;
    }
    return taken;
}

static bool
take_char(struct slice *rest, char c)
{
    if (rest->size == 0 || rest->data[0] != c)
        return false;
    rest->data++;
    rest->size--;
    return true;
}

static struct parts
parts_of(struct slice text)
{
    struct parts p = {.has_scheme = false};
    struct slice rest = text;

    p.scheme = take_until(&rest, ":/?#");
    p.has_scheme = is_scheme(p.scheme) && take_char(&rest, ':');
    if (!p.has_scheme) {
        p.scheme = (struct slice){NULL, 0};
        rest = text;
    }
    if (slice_starts(rest, "//")) {
        p.has_authority = true;
        rest.data += 2;
        rest.size -= 2;
        p.authority = take_until(&rest, "/?#");
    }
    p.path = take_until(&rest, "?#");
    p.has_query = take_char(&rest, '?');
    if (p.has_query)
        p.query = take_until(&rest, "#");
    p.has_fragment = take_char(&rest, '#');
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

/* Section 5.2.3: `path`, beside the last segment of the base's. */
static void
add_merged(struct buf *to, const struct parts *base, struct slice path)
{
    size_t kept = base->path.size;

    while (kept > 0 && base->path.data[kept - 1] != '/')
        kept--;
    if (base->has_authority && base->path.size == 0)
        BUF_ADD(to, "/");
    buf_add(to, base->path.data, kept);
    buf_add_slice(to, path);
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
        if (authority == &r || r.path.data[0] == '/')
            buf_add_slice(to, r.path);
        else
            add_merged(to, &b, r.path);
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
