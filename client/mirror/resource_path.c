/*
 * resource_path.c - the path of a resource in a mirror.
 */
#include "client/mirror/resource_path.h"

#include <stdint.h>
#include <stdio.h>

#include <openssl/evp.h>

#include "proto/uri.h"

#define EXTENSION_MAX 8

/* A path being built; `is_odd` is set when a name or the path is too long. */
struct path {
    char *to;
    size_t size;
    size_t name; /* where its last name begins */
    bool is_odd; /* only a digest will do */
};

/* ASCII, whatever the locale is. */
static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void
add_text(struct path *path, const char *text, size_t size)
{
    if (path->size + size > RESOURCE_PATH_MAX ||
        path->size - path->name + size > RESOURCE_PATH_NAME_MAX) {
        path->is_odd = true;
        return;
    }
    memcpy(path->to + path->size, text, size);
    path->size += size;
}

static void
add_escaped(struct path *path, char c)
{
    char text[4];

    snprintf(text, sizeof(text), "%%%02X", (unsigned char)c);
    add_text(path, text, 3);
}

static void
end_name(struct path *path)
{
    if (path->size >= RESOURCE_PATH_MAX) {
        path->is_odd = true;
        return;
    }
    path->to[path->size++] = '/';
    path->name = path->size;
}

/* Names */

/* True if add_escaped, too, could have written this escape of the URI. */
static bool
looks_like_ours(struct slice text)
{
    int byte = uri_escape(text);
    char c = (char)byte;

    if (byte <= ' ' || byte >= 0x7f || is_letter(c) || is_digit(c))
        return false;
    return !(text.data[1] >= 'a') && !(text.data[2] >= 'a');
}

static bool
is_kept_letter(char c, bool is_first)
{
    if (is_letter(c) || is_digit(c) || (c && strchr("_+,=@:", c)))
        return true;
    return !is_first && (c == '-' || c == '.' || c == '~');
}

static void
add_segment(struct path *path, struct slice segment)
{
    for (size_t i = 0; i < segment.size; i++) {
        char c = segment.data[i];
        struct slice rest = {segment.data + i, segment.size - i};

        if (is_kept_letter(c, i == 0)) {
            add_text(path, &c, 1);
        } else if (c <= ' ' || c >= 0x7f) { /* char may be signed: both */
            path->is_odd = true;
        } else if (c == '%' && uri_escape(rest) >= 0) {
            add_text(path, looks_like_ours(rest) ? "%25" : "%",
                     looks_like_ours(rest) ? 3 : 1);
            add_text(path, rest.data + 1, 2);
            i += 2;
        } else {
            add_escaped(path, c);
        }
    }
}

/* True if the last name has an extension. */
static bool
has_extension(const struct path *path)
{
    const char *name = path->to + path->name;
    size_t size = path->size - path->name;
    size_t n = 0;
    bool has_letter = false;

    while (n < size &&
           (is_letter(name[size - 1 - n]) || is_digit(name[size - 1 - n]))) {
        has_letter = has_letter || is_letter(name[size - 1 - n]);
        n++;
    }
    return has_letter && n <= EXTENSION_MAX && n + 1 < size &&
           name[size - 1 - n] == '.';
}

static void
add_directory(struct path *path, struct slice segment)
{
    if (segment.size == 0) {
        add_text(path, "%empty", 6);
    } else {
        add_segment(path, segment);
        if (has_extension(path))
            add_text(path, "%", 1);
    }
    end_name(path);
}

static void
add_file(struct path *path, struct slice segment)
{
    if (segment.size == 0) {
        add_text(path, "%index", 6);
        return;
    }
    add_segment(path, segment);
    if (!has_extension(path))
        add_text(path, "%", 1);
}

/* The host */

/* True if the port is in its usual form: no other text is the same number. */
static bool
is_port(struct slice port)
{
    unsigned long value = 0;

    if (port.size == 0 || port.size > 5 || port.data[0] == '0')
        return false;
    for (size_t i = 0; i < port.size; i++) {
        if (!is_digit(port.data[i]))
            return false;
        value = value * 10 + (unsigned long)(port.data[i] - '0');
    }
    return value <= 65535;
}

/* Adds a name, IPv4 or "[IPv6]". Escapes upper-case letters: the same host in
 * lower case is another URI. */
static bool
add_host(struct path *path, struct slice host)
{
    bool is_ipv6 =
        host.size > 2 && host.data[0] == '[' && host.data[host.size - 1] == ']';

    if (host.size == 0)
        return false;
    for (size_t i = 0; i < host.size; i++) {
        char c = host.data[i];
        bool is_bracket = is_ipv6 && (i == 0 || i == host.size - 1);

        if (c >= 'A' && c <= 'Z')
            add_escaped(path, c);
        else if (is_letter(c) || is_digit(c) || (is_ipv6 && c == ':') ||
                 (i > 0 && (c == '-' || c == '.' || c == '_')))
            add_text(path, &c, 1);
        else if (is_bracket)
            add_escaped(path, c);
        else
            return false;
    }
    return true;
}

/* Writes "host" for https and "host:80" for http if the URI has no port, else
 * its port. Adds the scheme where another URI has that name. */
static bool
add_authority(struct path *path, bool is_tls, struct slice authority)
{
    const char *colon = memrchr(authority.data, ':', authority.size);
    struct slice host = authority;
    struct slice port = {NULL, 0};

    if (colon && authority.data[authority.size - 1] != ']') {
        host.size = (size_t)(colon - authority.data);
        port = (struct slice){colon + 1, authority.size - host.size - 1};
        if (!is_port(port))
            return false;
    }
    if (!add_host(path, host))
        return false;
    if (port.size > 0) {
        add_text(path, ":", 1);
        add_text(path, port.data, port.size);
        if (is_tls)
            add_text(path, "%https", 6);
        else if (slice_is(port, "80"))
            add_text(path, "%http", 5);
    } else if (!is_tls) {
        add_text(path, ":80", 3);
    }
    end_name(path);
    return !path->is_odd;
}

/* Adds %digest/ab/abcd... */
static bool
add_digest(struct path *path, struct slice loc)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    char hex[2 * EVP_MAX_MD_SIZE + 1];

    if (!EVP_Digest(loc.data, loc.size, digest, &size, EVP_sha256(), NULL))
        return false;
    for (unsigned i = 0; i < size; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    path->is_odd = false;
    add_text(path, "%digest", 7);
    end_name(path);
    add_text(path, hex, 2);
    end_name(path);
    add_text(path, hex, 2 * (size_t)size);
    return true;
}

/* Adds everything after the host; `rest` begins with "/". */
static void
add_rest(struct path *path, struct slice rest)
{
    size_t end = 0;

    while (end < rest.size && rest.data[end] != '?' && rest.data[end] != '#')
        end++;
    slice_skip(&rest, 1); /* the slash behind the host */
    end--;
    for (;;) {
        const char *slash = memchr(rest.data, '/', end);
        size_t size = slash ? (size_t)(slash - rest.data) : 0;

        if (!slash)
            break;
        add_directory(path, (struct slice){rest.data, size});
        if (path->is_odd)
            return;
        slice_skip(&rest, size + 1);
        end -= size + 1;
    }
    add_file(path, rest);
}

bool
resource_path_write(char to[RESOURCE_PATH_MAX + 1], struct slice loc)
{
    struct path path = {.to = to};
    bool is_tls = slice_starts(loc, "https://");
    bool is_good = true;

    if (is_tls || slice_starts(loc, "http://")) {
        struct slice rest = {loc.data + (is_tls ? 8 : 7),
                             loc.size - (is_tls ? 8 : 7)};
        struct slice authority = {rest.data, 0};
        size_t after_host;

        while (authority.size < rest.size &&
               !memchr("/?#", rest.data[authority.size], 3))
            authority.size++;
        slice_skip(&rest, authority.size);
        if (add_authority(&path, is_tls, authority)) {
            after_host = path.size;
            if (rest.size > 0 && rest.data[0] == '/')
                add_rest(&path, rest);
            else
                path.is_odd = true;
            if (path.is_odd) {
                path.size = path.name = after_host;
                is_good = add_digest(&path, loc);
            }
            to[path.size] = '\0';
            return is_good;
        }
    }
    path = (struct path){.to = to};
    is_good = add_digest(&path, loc);
    to[path.size] = '\0';
    return is_good;
}
