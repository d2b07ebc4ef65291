#include "tests/unit/mirror/unpath.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything here is in the C locale. */

static bool
is_escape(const char *at)
{
    return at[0] == '%' && isxdigit((unsigned char)at[1]) &&
           isxdigit((unsigned char)at[2]);
}

static int
byte_of(const char *at)
{
    char hex[3] = {at[1], at[2], '\0'};

    return (int)strtol(hex, NULL, 16);
}

/* An escape that the mirror itself may have written. */
static bool
is_ours(const char *at)
{
    int byte = byte_of(at);

    return byte > ' ' && byte < 0x7f && !isalnum(byte) &&
           !islower((unsigned char)at[1]) && !islower((unsigned char)at[2]);
}

/* `size` bytes of a path's name, its mark gone, as they are in the URI. */
static char *
unescape(char *to, const char *name, size_t size)
{
    size_t i = 0;

    while (i < size) {
        if (!is_escape(name + i)) {
            *to++ = name[i++];
        } else if (byte_of(name + i) == '%' && i + 4 < size &&
                   isxdigit((unsigned char)name[i + 3]) &&
                   isxdigit((unsigned char)name[i + 4])) {
            *to++ = '%'; /* an escape of the URI, put out of ours' way */
            *to++ = name[i + 3];
            *to++ = name[i + 4];
            i += 5;
        } else if (is_ours(name + i)) {
            *to++ = (char)byte_of(name + i);
            i += 3;
        } else {
            memcpy(to, name + i, 3);
            to += 3;
            i += 3;
        }
    }
    return to;
}

static size_t
without_mark(const char *name, size_t size)
{
    return size > 0 && name[size - 1] == '%' ? size - 1 : size;
}

/* "host:81%https" and the like. */
static char *
write_host(char *to, const char *name, size_t size)
{
    static const char tls[] = "%https";
    static const char plain[] = "%http";
    const char *host = name;
    const char *scheme = "https://";
    bool has_port = false;

    if (size > 6 && !memcmp(name + size - 6, tls, 6)) {
        size -= 6;
    } else if (size > 5 && !memcmp(name + size - 5, plain, 5)) {
        size -= 5;
        scheme = "http://";
    } else {
        size_t digits = 0;

        while (digits < size && isdigit((unsigned char)name[size - 1 - digits]))
            digits++;
        has_port =
            digits > 0 && digits < size && name[size - 1 - digits] == ':';
        if (has_port) {
            scheme = "http://";
            if (digits == 2 && !memcmp(name + size - 3, ":80", 3))
                size -= 3;
        }
    }
    to += sprintf(to, "%s", scheme);
    for (size_t i = 0; i < size; i++) {
        if (is_escape(host + i)) {
            *to++ = (char)byte_of(host + i);
            i += 2;
        } else {
            *to++ = host[i];
        }
    }
    return to;
}

bool
unpath(char *to, const char *path)
{
    size_t size = strcspn(path, "/");

    if (!strncmp(path, "%digest/", 8) || !strncmp(path + size, "/%digest/", 9))
        return false;
    to = write_host(to, path, size);
    for (path += size; *path; path += size) {
        const char *name = ++path;

        *to++ = '/';
        size = strcspn(name, "/");
        if ((size == 6 && !strncmp(name, "%empty", 6)) ||
            (size == 6 && !strncmp(name, "%index", 6)))
            continue;
        to = unescape(to, name, without_mark(name, size));
    }
    *to = '\0';
    return true;
}

static bool
has_extension(const char *name, size_t size)
{
    size_t n = 0;
    bool has_letter = false;

    while (n < size && isalnum((unsigned char)name[size - 1 - n])) {
        has_letter = has_letter || isalpha((unsigned char)name[size - 1 - n]);
        n++;
    }
    return n + 1 < size && n <= 8 && has_letter && name[size - 1 - n] == '.';
}

/* True if it is the name of a file, not of a directory. */
static bool
is_file_name(const char *name, size_t size)
{
    size_t bare = without_mark(name, size);

    if (size == 6 && !memcmp(name, "%index", 6))
        return true;
    return has_extension(name, bare) == (bare == size);
}

bool
unpath_is_sound(const char *path)
{
    bool is_first = true;
    bool is_digest = false;

    for (;;) {
        size_t size = strcspn(path, "/");
        bool is_last = !path[size];

        if (size == 0 || size > 255 || path[0] == '.' || path[0] == '-')
            return false;
        for (size_t i = 0; i < size; i++)
            if (path[i] <= ' ' || path[i] >= 0x7f || path[i] == '\\')
                return false;
        if (!is_first && !is_digest && strncmp(path, "%digest/", 8) &&
            is_file_name(path, size) != is_last)
            return false;
        is_digest = is_digest || !strncmp(path, "%digest/", 8);
        if (is_last)
            return !is_first;
        path += size + 1;
        is_first = false;
    }
}
