#include "client/lib/address_policy.h"

#include <arpa/inet.h>
#include <netinet/in.h>

struct address_policy_source {
    struct address_policy_source *next;
    char *host;
    bool is_known; /* a connection was made, or its host is an address */
    enum address_reach reach;
};

void
address_policy_fini(struct address_policy *reach)
{
    struct address_policy_source *source;

    while ((source = reach->sources)) {
        reach->sources = source->next;
        free(source->host);
        free(source);
    }
}

static struct address_policy_source *
find_source(const struct address_policy *reach, const char *host)
{
    for (struct address_policy_source *s = reach->sources; s; s = s->next)
        if (!strcasecmp(s->host, host))
            return s;
    return NULL;
}

/* Learns the address of a source. Keeps the most public one of all. */
static void
learn_reach(struct address_policy *reach, struct address_policy_source *source,
            enum address_reach of)
{
    if (!source->is_known || of < source->reach)
        source->reach = of;
    if (!reach->is_known || of < reach->most)
        reach->most = of;
    source->is_known = reach->is_known = true;
}

/* True if the host is written as an address, or is localhost. */
static bool
read_host(const char *host, enum address_reach *of)
{
    struct sockaddr_storage address;
    const char *dot = strrchr(host, '.');

    if (!strcasecmp(host, "localhost") ||
        (dot && !strcasecmp(dot, ".localhost")))
        *of = ADDRESS_LOOPBACK;
    else if (address_read(host, &address))
        *of = address_reach(NULL, (const struct sockaddr *)&address);
    else
        return false;
    return true;
}

bool
address_policy_add_source(struct address_policy *reach, const char *host)
{
    struct address_policy_source *source;
    enum address_reach of;

    if (find_source(reach, host))
        return true;
    source = calloc(1, sizeof(*source));
    if (!source)
        return false;
    source->host = strdup(host);
    if (!source->host) {
        free(source);
        return false;
    }
    source->next = reach->sources;
    reach->sources = source;
    if (read_host(host, &of))
        learn_reach(reach, source, of);
    return true;
}

void
address_policy_begin(struct address_policy *reach,
                     struct address_policy_check *check, const char *host,
                     bool is_own, bool is_proxied)
{
    *check = (struct address_policy_check){
        .reach = reach,
        .source = find_source(reach, host),
        .is_free = is_own || reach->allows_all || !reach->sources,
        .is_proxied = is_proxied,
        .of_host = ADDRESS_PUBLIC,
    };
    read_host(host, &check->of_host);
}

bool
address_policy_allows(struct address_policy_check *check,
                      const struct sockaddr *address, bool is_sent)
{
    struct address_policy *r = check->reach;
    struct address_policy_source *s = check->source;
    enum address_reach of =
        check->is_proxied ? check->of_host : address_reach(NULL, address);
    const void *in =
        (const char *)address + (address->sa_family == AF_INET6
                                     ? offsetof(struct sockaddr_in6, sin6_addr)
                                     : offsetof(struct sockaddr_in, sin_addr));

    if (check->is_free || of == ADDRESS_PUBLIC ||
        (s ? !s->is_known || of <= s->reach : r->is_known && of <= r->most)) {
        if (is_sent && s && !check->is_free)
            learn_reach(r, s, of);
        return true;
    }
    check->of_refused = of;
    if (check->is_proxied || !inet_ntop(address->sa_family, in, check->refused,
                                        sizeof(check->refused)))
        snprintf(check->refused, sizeof(check->refused), "its host");
    return false;
}

struct address_policy_text
address_policy_refused(const struct address_policy_check *check)
{
    static const char *const kinds[] = {
        [ADDRESS_PUBLIC] = "a public address",
        [ADDRESS_PRIVATE] = "a private address",
        [ADDRESS_LINK_LOCAL] = "a link-local address",
        [ADDRESS_LOOPBACK] = "an address of this machine",
    };
    struct address_policy_text to;

    snprintf(to.text, sizeof(to.text),
             "it leads to %s, %s, which no source elsewhere may name without "
             "--allow-private",
             check->refused, kinds[check->of_refused]);
    return to;
}
