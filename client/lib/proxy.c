#include "client/lib/proxy.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/network_address.h"
#include "proto/slice.h"

static const char *
read_env(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

static const char *
first_env(const char *const *names)
{
    const char *value = NULL;

    while (!value && *names)
        value = read_env(*names++);
    return value;
}

/* True if `host` is `name` or ends with a dot and it: "www.example.org". */
static bool
is_below(struct slice host, struct slice name)
{
    while (name.size > 0 && name.data[0] == '.')
        name = (struct slice){name.data + 1, name.size - 1};
    while (name.size > 0 && name.data[name.size - 1] == '.')
        name.size--;
    return name.size > 0 && host.size >= name.size &&
           !strncasecmp(host.data + host.size - name.size, name.data,
                        name.size) &&
           (host.size == name.size ||
            host.data[host.size - name.size - 1] == '.');
}

/* True if the address `host` is in the network, or is that address. */
static bool
is_in(const char *host, struct slice network)
{
    struct sockaddr_storage address;
    struct networks one;

    return address_read(host, &address) &&
           !networks_read(network, &one, NULL) &&
           networks_contain(&one, (const struct sockaddr *)&address);
}

static bool
is_excepted(const char *list, const char *host)
{
    static const char between[] = ", \t";

    if (!strcmp(list, "*"))
        return true;
    while (*(list += strspn(list, between))) {
        struct slice name = {list, strcspn(list, between)};

        if (is_below(slice_of(host), name) || is_in(host, name))
            return true;
        list += name.size;
    }
    return false;
}

bool
proxy_is_used(const char *scheme, const char *host)
{
    static const char *const of_http[] = {"http_proxy", "all_proxy",
                                          "ALL_PROXY", NULL};
    static const char *const of_https[] = {"https_proxy", "HTTPS_PROXY",
                                           "all_proxy", "ALL_PROXY", NULL};
    static const char *const of_none[] = {"no_proxy", "NO_PROXY", NULL};
    bool is_https = !strcasecmp(scheme, "https");
    const char *excepted = first_env(of_none);

    return first_env(is_https ? of_https : of_http) &&
           !(excepted && is_excepted(excepted, host));
}
