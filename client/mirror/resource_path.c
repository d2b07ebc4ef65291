/*
 * resource_path.c - the path of a resource in a mirror.
 */
#include "client/mirror/resource_path.h"

#include "proto/ascii.h"
#include "proto/number.h"
#include "proto/resourcesync/digest.h"
#include "proto/uri.h"

#define EXTENSION_MAX 8

/* A path being built. */
struct path {
    struct buf to;
    size_t name; /* where its last name begins */
    bool is_odd; /* only a digest will do */
};

/* Notes that the last name or the path is too long. */
static void
check_name(struct path *path)
{
    path->is_odd |=
        path->to.failed || path->to.size - path->name > RESOURCE_PATH_NAME_MAX;
}

static void
end_name(struct path *path)
{
    check_name(path);
    BUF_ADD(&path->to, "/");
    path->name = path->to.size;
}

/* Names */

static void
add_segment(struct path *path, struct slice segment)
{
    for (size_t i = 0; i < segment.size; i++) {
        char c = segment.data[i];
        struct slice rest = slice_from(segment, i);
        int byte = uri_escape(rest);

        if (ascii_is_alnum(c) || (c && strchr("_+,=@:", c)) ||
            (i > 0 && (c == '-' || c == '.' || c == '~'))) {
            buf_add(&path->to, &c, 1);
        } else if (c <= ' ' || c >= 0x7f) { /* char may be signed: both */
            path->is_odd = true;
        } else if (byte >= 0) {
            /* uri_add_escape, too, could have written it. */
            bool is_like_ours = byte > ' ' && byte < 0x7f &&
                                !ascii_is_alnum((char)byte) &&
                                rest.data[1] < 'a' && rest.data[2] < 'a';

            buf_add_text(&path->to, is_like_ours ? "%25" : "%");
            buf_add(&path->to, rest.data + 1, 2);
            i += 2;
        } else {
            uri_add_escape(&path->to, c);
        }
    }
}

/* True if the last name has an extension. */
static bool
has_extension(const struct path *path)
{
    const char *name = path->to.data + path->name;
    size_t size = path->to.size - path->name;
    size_t n = 0;
    bool has_letter = false;

    while (n < size && ascii_is_alnum(name[size - 1 - n])) {
        has_letter = has_letter || ascii_is_letter(name[size - 1 - n]);
        n++;
    }
    return has_letter && n <= EXTENSION_MAX && n + 1 < size &&
           name[size - 1 - n] == '.';
}

/* Names */

/* Adds a name of the path. An empty one, and a directory that could be a file,
 * or a file that could be a directory, get "%". */
static void
add_name(struct path *path, struct slice segment, bool is_file)
{
    if (segment.size == 0) {
        buf_add_text(&path->to, is_file ? "%index" : "%empty");
    } else {
        add_segment(path, segment);
        if (has_extension(path) != is_file)
            BUF_ADD(&path->to, "%");
    }
    if (is_file)
        check_name(path);
    else
        end_name(path);
}

/* The host */

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
            uri_add_escape(&path->to, c);
        else if (ascii_is_alnum(c) || (is_ipv6 && c == ':') ||
                 (i > 0 && (c == '-' || c == '.' || c == '_')))
            buf_add(&path->to, &c, 1);
        else if (is_bracket)
            uri_add_escape(&path->to, c);
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
    uint64_t number;

    if (colon && authority.data[authority.size - 1] != ']') {
        host.size = (size_t)(colon - authority.data);
        port = (struct slice){colon + 1, authority.size - host.size - 1};
        /* In its usual form: no other text is the same number. */
        if (!port.size || port.data[0] == '0' || !number_read(port, &number) ||
            number > 65535)
            return false;
    }
    if (!add_host(path, host))
        return false;
    if (port.size > 0) {
        BUF_ADD(&path->to, ":");
        buf_add_slice(&path->to, port);
        if (is_tls)
            BUF_ADD(&path->to, "%https");
        else if (slice_is(port, "80"))
            BUF_ADD(&path->to, "%http");
    } else if (!is_tls) {
        BUF_ADD(&path->to, ":80");
    }
    end_name(path);
    return !path->is_odd;
}

void
resource_path_write(char to[RESOURCE_PATH_MAX + 1], struct slice loc)
{
    struct path path = {.name = 0};
    struct slice rest = loc, names;
    struct digest digest;
    bool is_tls = slice_starts(loc, "https://");
    size_t after_host = 0;

    buf_init_fixed(&path.to, to, RESOURCE_PATH_MAX);
    path.is_odd = !is_tls && !slice_starts(loc, "http://");
    if (!path.is_odd) {
        slice_skip(&rest, is_tls ? 8 : 7);
        path.is_odd =
            !add_authority(&path, is_tls, slice_take_until(&rest, "/?#"));
        after_host = path.is_odd ? 0 : path.to.size;
    }
    if (!slice_starts(rest, "/"))
        path.is_odd = true;
    if (!path.is_odd) { /* everything after the host */
        names = slice_take_until(&rest, "?#");
        slice_skip(&names, 1); /* the slash behind the host */
        while (!path.is_odd && memchr(names.data, '/', names.size))
            add_name(&path, slice_take(&names, '/'), false);
        add_name(&path, (struct slice){names.data, names.size + rest.size},
                 true);
    }
    if (path.is_odd) { /* HOST/%digest/ab/abcd... */
        digest_sha256(&digest, loc);
        buf_clear(&path.to);
        path.to.size = after_host;
        BUF_ADD(&path.to, "%digest/");
        buf_add_hex(&path.to, digest.bytes, 1);
        BUF_ADD(&path.to, "/");
        buf_add_hex(&path.to, digest.bytes, DIGEST_SIZE);
    }
    to[path.to.size] = '\0';
}
