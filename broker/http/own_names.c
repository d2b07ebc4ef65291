#include "broker/http/own_names.h"

#include <stdio.h>
#include <string.h>

/* The host and port of a URL: the text between "://" and the next slash. */
static struct slice
authority_of(struct slice url)
{
    const char *at = url.size ? memmem(url.data, url.size, "://", 3) : NULL;

    if (!at)
        return (struct slice){NULL, 0};
    slice_skip(&url, (size_t)(at - url.data) + 3);
    return slice_take(&url, '/');
}

struct slice
own_names_host_of(struct slice authority)
{
    char end = authority.size && *authority.data == '[' ? ']' : ':';
    const char *at =
        authority.size ? memchr(authority.data, end, authority.size) : NULL;

    if (at)
        authority.size = (size_t)(at - authority.data) + (end == ']');
    return authority;
}

struct slice
own_names_port_of(struct slice url)
{
    struct slice authority = authority_of(url);

    slice_skip(&authority, own_names_host_of(authority).size);
    return slice_take_char(&authority, ':') ? authority
                                            : (struct slice){NULL, 0};
}

static void
add_host(struct http *http, struct slice host)
{
    bool is_bare_ipv6 = host.size && *host.data != '[' &&
                        memchr(host.data, ':', host.size) != NULL;

    snprintf(http->hosts[http->n_hosts++], sizeof(http->hosts[0]),
             is_bare_ipv6 ? "[%.*s]" : "%.*s", SLICE_ARG(host));
}

void
own_names_init(struct http *http, const char *listen_host)
{
    struct slice url = slice_of(registry_public_url(http->registry));

    add_host(http, slice_of(listen_host));
    add_host(http, SLICE("localhost"));
    add_host(http, SLICE("127.0.0.1"));
    add_host(http, SLICE("::1"));
    add_host(http, own_names_host_of(authority_of(url)));
}

bool
own_names_have_host(const struct http *http, struct slice authority)
{
    struct slice host = own_names_host_of(authority);

    for (unsigned i = 0; i < http->n_hosts; i++)
        if (slice_is_word(host, http->hosts[i]))
            return true;
    return false;
}

bool
own_names_have_origin(const struct http *http, struct slice origin,
                      struct slice host)
{
    struct slice authority = authority_of(origin);
    struct slice url =
        authority_of(slice_of(registry_public_url(http->registry)));

    return authority.size &&
           (!http->is_near || own_names_have_host(http, authority)) &&
           (slice_equal(authority, host) || slice_equal(authority, url));
}
