/*
 * file_uri.c - chooses the published files, and writes their URIs.
 */
#include "client/watch/file_uri.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

#include "proto/uri.h"

const char *
file_uri_fault(const char *base)
{
    const char *host;

    if (!strncmp(base, "http://", 7))
        host = base + 7;
    else if (!strncmp(base, "https://", 8))
        host = base + 8;
    else
        return "is no absolute URI with http or https";
    if (*host != '[' && !isalnum((unsigned char)*host))
        return "has no host";
    for (const char *p = base; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f ||
            strchr("\"<>\\^`{|}", *p))
            return "has a character that must be percent-encoded";
    if (strpbrk(base, "?#"))
        return "has a query or a fragment";
    if (base[strlen(base) - 1] != '/')
        return "has no \"/\" at its end, behind which the files' names stand";
    if (strlen(base) > FILE_URI_MAX / 2)
        return "is longer than 1,024 bytes";
    return NULL;
}

bool
file_uri_write(char to[FILE_URI_MAX + 1], const char *base, const char *path)
{
    struct buf uri;
    char encoded[3];

    buf_init_fixed(&uri, to, FILE_URI_MAX);
    buf_add_text(&uri, base);
    for (; *path; path++)
        if (*path == '/')
            BUF_ADD(&uri, "/");
        else
            buf_add(&uri, encoded,
                    uri_encode((struct slice){path, 1}, encoded));
    to[uri.size] = '\0';
    return !uri.failed && uri.size >= FILE_URI_MIN;
}

bool
file_uri_is_excluded(const char *const *globs, size_t n_globs, const char *path)
{
    char upto[FILE_URI_PATH_MAX + 1];
    size_t size = strlen(path);
    size_t name = 0; /* where the last name of `upto` begins */

    if (size > FILE_URI_PATH_MAX)
        return true;
    memcpy(upto, path, size + 1);
    for (;;) {
        size_t end = name + strcspn(path + name, "/");

        upto[end] = '\0';
        if (!strcmp(upto + name, FILE_URI_STATE_NAME))
            return true;
        for (size_t i = 0; i < n_globs; i++)
            if (!fnmatch(globs[i], upto + name, 0) ||
                !fnmatch(globs[i], upto, FNM_PATHNAME))
                return true;
        if (!path[end])
            return false;
        upto[end] = '/';
        name = end + 1;
    }
}
