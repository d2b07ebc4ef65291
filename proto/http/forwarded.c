#include "proto/http/forwarded.h"

#include <netinet/in.h>

#include "proto/number.h"
#include "proto/token.h"

/* Longer is no node: "[ffff:...:255.255.255.255]:65535". */
#define NODE_MAX 63

/* Nodes */

/* A port, of digits, or a name for one ("_abc"; RFC 7239 section 6). */
static bool
is_port(struct slice text)
{
    uint64_t port;

    if (text.size > 1 && text.data[0] == '_')
        return token_is(text);
    return text.size <= 5 && number_read(text, &port);
}

static bool
read_host(struct slice host, int family, struct sockaddr_storage *address)
{
    char text[NODE_MAX + 1];

    /* address_read takes a zone, which means nothing elsewhere. */
    return slice_copy(text, sizeof(text), host) && !strchr(text, '%') &&
           address_read(text, address) && address->ss_family == family;
}

/* "192.0.2.1", "[2001:db8::1]", each with or without ":port". */
static bool
read_node(struct slice text, struct sockaddr_storage *address)
{
    struct slice host = text, rest;

    if (text.size > 0 && text.data[0] == '[') {
        rest = slice_from(text, 1);
        return slice_take_to(&rest, ']', &host) &&
               (rest.size == 0 ||
                (slice_take_char(&rest, ':') && is_port(rest))) &&
               read_host(host, AF_INET6, address);
    }
    rest = text;
    host = slice_take(&rest, ':');
    if (host.size < text.size && !is_port(rest))
        return false;
    return read_host(host, AF_INET, address);
}

/* X-Forwarded-For, from its end */

static bool
read_x_forwarded_for(struct slice value, const struct networks *trusted,
                     struct sockaddr_storage *client)
{
    while (value.size > 0) {
        size_t begin = value.size;
        struct slice one;

        while (begin > 0 && value.data[begin - 1] != ',')
            begin--;
        one = slice_trimmed(slice_from(value, begin));
        value.size = begin > 0 ? begin - 1 : 0;
        if (one.size == 0)
            continue;
        if (!read_node(one, client) && !read_host(one, AF_INET6, client))
            return false;
        if (!networks_contain(trusted, (const struct sockaddr *)client))
            return true;
    }
    return false;
}

/* Forwarded, from its beginning */

struct text {
    char bytes[NODE_MAX];
    size_t size; /* more than NODE_MAX: cut */
};

/* The element of one proxy. */
struct element {
    bool has_pairs;
    bool has_for;
    struct text node;
};

/* Takes an element: pairs of a name and a value. False: it is malformed. */
static bool
take_element(struct slice *rest, struct element *element)
{
    element->has_pairs = element->has_for = false;
    do {
        struct slice name;
        struct text value;

        slice_skip_blanks(rest);
        if (rest->size > 0 && rest->data[0] != ';' && rest->data[0] != ',') {
            name = token_take(rest);
            if (name.size == 0 || !slice_take_char(rest, '=') ||
                !token_take_value(rest, value.bytes, sizeof(value.bytes),
                                  &value.size))
                return false;
            element->has_pairs = true;
            if (slice_is_word(name, "for")) {
                if (element->has_for)
                    return false;
                element->has_for = true;
                element->node = value;
            }
        }
        slice_skip_blanks(rest);
    } while (slice_take_char(rest, ';'));
    return rest->size == 0 || slice_take_char(rest, ',');
}

static bool
read_forwarded(struct slice value, const struct networks *trusted,
               struct sockaddr_storage *client)
{
    struct sockaddr_storage address;
    bool is_found = false;

    while (value.size > 0) {
        struct element e;
        bool has_address;

        if (!take_element(&value, &e))
            return false;
        if (!e.has_pairs)
            continue;
        has_address =
            e.has_for && e.node.size <= NODE_MAX &&
            read_node((struct slice){e.node.bytes, e.node.size}, &address);
        if (has_address &&
            networks_contain(trusted, (const struct sockaddr *)&address))
            continue;
        is_found = has_address;
        *client = address;
    }
    return is_found;
}

/* Both */

bool
forwarded_client(struct slice forwarded, struct slice x_forwarded_for,
                 const struct networks *trusted,
                 struct sockaddr_storage *client)
{
    struct sockaddr_storage other;

    if (x_forwarded_for.size == 0)
        return read_forwarded(forwarded, trusted, client);
    if (forwarded.size == 0)
        return read_x_forwarded_for(x_forwarded_for, trusted, client);
    return read_forwarded(forwarded, trusted, client) &&
           read_x_forwarded_for(x_forwarded_for, trusted, &other) &&
           !memcmp(client, &other, sizeof(other));
}
