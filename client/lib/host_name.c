/*
 * host_name.c - the host that a URL asks.
 */
#include "client/lib/host_name.h"

#include "proto/ascii.h"

/* "HTTP://me@Example.org:80/x?y" --> "HTTP://", "Example.org" */
static bool
split_url(struct slice url, struct slice *scheme, struct slice *authority)
{
    static const char *const schemes[] = {"http://", "https://"};
    static const char *const ports[] = {":80", ":443"};
    const char *at;

    for (size_t i = 0; i < 2; i++) {
        size_t size = strlen(schemes[i]);

        if (url.size <= size || strncasecmp(url.data, schemes[i], size) != 0)
            continue;
        *scheme = (struct slice){url.data, size};
        slice_skip(&url, size);
        *authority = slice_take_until(&url, "/?#");
        at = authority->size ? memrchr(authority->data, '@', authority->size)
                             : NULL;
        if (at)
            slice_skip(authority, (size_t)(at + 1 - authority->data));
        /* The default port of the scheme says nothing. */
        size = strlen(ports[i]);
        if (authority->size > size && slice_ends(*authority, ports[i]))
            authority->size -= size;
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

char *
host_name_of(struct slice url)
{
    struct slice scheme, authority;
    char *name;

    if (!split_url(url, &scheme, &authority) ||
        asprintf(&name, "%.*s%.*s", SLICE_ARG(scheme), SLICE_ARG(authority)) <
            0)
        return NULL;
    for (char *c = name; *c; c++)
        *c = ascii_lower(*c);
    return name;
}
