/*
 * host_name.c - the host that a URL asks.
 */
#include "client/lib/host_name.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Drops the default port of the scheme. */
static void
drop_port(struct slice *authority, const char *port)
{
    size_t size = strlen(port);

    if (authority->size > size &&
        !memcmp(authority->data + authority->size - size, port, size))
        authority->size -= size;
}

/* "HTTP://me@Example.org:80/x?y" --> "HTTP://", "Example.org" */
static bool
split_url(struct slice url, struct slice *scheme, struct slice *authority)
{
    static const char *const schemes[] = {"http://", "https://"};
    const char *at;

    for (size_t i = 0; i < 2; i++) {
        size_t size = strlen(schemes[i]);
        size_t end = size;

        if (url.size <= size || strncasecmp(url.data, schemes[i], size) != 0)
            continue;
        while (end < url.size && !strchr("/?#", url.data[end]))
            end++;
        *scheme = (struct slice){url.data, size};
        *authority = (struct slice){url.data + size, end - size};
        at = authority->size ? memrchr(authority->data, '@', authority->size)
                             : NULL;
        if (at) {
            authority->size -= (size_t)(at + 1 - authority->data);
            authority->data = at + 1;
        }
        drop_port(authority, i ? ":443" : ":80");
        return authority->size > 0;
    }
    return false;
}

bool
host_name_is_url(struct slice url)
{
    struct slice scheme, authority;

    for (size_t i = 0; i < url.size; i++)
        if ((unsigned char)url.data[i] <= ' ' || url.data[i] == 0x7f)
            return false;
    return split_url(url, &scheme, &authority);
}

static char
lower_letter(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

char *
host_name_of(struct slice url)
{
    struct slice scheme, authority;
    char *name;

    if (!split_url(url, &scheme, &authority))
        return NULL;
    name = malloc(scheme.size + authority.size + 1);
    if (!name)
        return NULL;
    for (size_t i = 0; i < scheme.size; i++)
        name[i] = lower_letter(scheme.data[i]);
    for (size_t i = 0; i < authority.size; i++)
        name[scheme.size + i] = lower_letter(authority.data[i]);
    name[scheme.size + authority.size] = '\0';
    return name;
}
