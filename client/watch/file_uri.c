/*
 * file_uri.c - chooses the published files, and writes their URIs.
 */
#include "client/watch/file_uri.h"

#include <fnmatch.h>
#include <string.h>

static bool
is_alphanumeric(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* RFC 3986, section 2.3; independent of the locale. */
static bool
is_unreserved(unsigned char c)
{
    return is_alphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

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
    if (*host != '[' && !is_alphanumeric((unsigned char)*host))
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
    static const char digits[] = "0123456789ABCDEF";
    size_t n = strlen(base);

    if (n > FILE_URI_MAX)
        return false;
    memcpy(to, base, n);
    for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
        bool stays = is_unreserved(*p) || *p == '/';

        if (n + (stays ? 1 : 3) > FILE_URI_MAX)
            return false;
        if (stays) {
            to[n++] = (char)*p;
        } else {
            to[n++] = '%';
            to[n++] = digits[*p >> 4];
            to[n++] = digits[*p & 15];
        }
    }
    to[n] = '\0';
    return n >= FILE_URI_MIN;
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
