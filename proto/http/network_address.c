#include "proto/http/network_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "proto/number.h"

#define BITS      128
#define BITS_IPV4 32

/* Where an IPv4 address stands in the IPv6 address that is another way to write
 * it (RFC 4291 section 2.5.5.2). */
#define MAPPED_BITS  96
#define MAPPED_BYTES 12

/* Longer is no network: "ffff:...:255.255.255.255/128". */
#define NETWORK_TEXT_MAX 64

struct reaching {
    struct network network;
    enum address_reach reach;
};

#define IPV4(a, b, c, d, bits, reach)                    \
    {                                                    \
        {{[10] = 0xff, [11] = 0xff, (a), (b), (c), (d)}, \
         MAPPED_BITS + (bits)},                          \
            ADDRESS_##reach                              \
    }

/* IANA's registry of special-purpose IPv4 addresses, those that are not
 * globally reachable; and multicast. 192.0.0.0/24 has two addresses that are
 * reachable: nobody has a callback at a port control protocol. Linux connects
 * to itself where 0.0.0.0 is asked for. */
static const struct reaching special_ipv4[] = {
    IPV4(0, 0, 0, 0, 8, LOOPBACK),        /* this network (RFC 791) */
    IPV4(10, 0, 0, 0, 8, PRIVATE),        /* private (RFC 1918) */
    IPV4(100, 64, 0, 0, 10, PRIVATE),     /* a carrier's NAT (RFC 6598) */
    IPV4(127, 0, 0, 0, 8, LOOPBACK),      /* loopback (RFC 1122) */
    IPV4(169, 254, 0, 0, 16, LINK_LOCAL), /* RFC 3927, clouds' metadata */
    IPV4(172, 16, 0, 0, 12, PRIVATE),     /* private */
    IPV4(192, 0, 0, 0, 24, PRIVATE),      /* assignments (RFC 6890) */
    IPV4(192, 0, 2, 0, 24, PRIVATE),      /* documentation (RFC 5737) */
    IPV4(192, 88, 99, 0, 24, PRIVATE),    /* 6to4 relays (RFC 7526) */
    IPV4(192, 168, 0, 0, 16, PRIVATE),    /* private */
    IPV4(198, 18, 0, 0, 15, PRIVATE),     /* benchmarking (RFC 2544) */
    IPV4(198, 51, 100, 0, 24, PRIVATE),   /* documentation */
    IPV4(203, 0, 113, 0, 24, PRIVATE),    /* documentation */
    IPV4(224, 0, 0, 0, 4, PRIVATE),       /* multicast (RFC 5771) */
    IPV4(240, 0, 0, 0, 4, PRIVATE),       /* reserved (RFC 1112) */
};

/* Of IPv6, only what is given out as global unicast (RFC 4291 section 2.4) is
 * public: everything else is unique-local (fc00::/7), site-local, multicast
 * (ff00::/8), discard-only (100::/64), segment identifiers (5f00::/16), a local
 * translation (64:ff9b:1::/48), reserved or in this table. The exception is the
 * prefix under which a translator reaches all of IPv4. The first row that fits
 * counts. */
static const struct network global_unicast = {{0x20}, 3};

#define TRANSLATED                   \
    {                                \
        {0x00, 0x64, 0xff, 0x9b}, 96 \
    }
#define TEREDO           \
    {                    \
        {0x20, 0x01}, 32 \
    } /* RFC 4380 */

static const struct reaching special_ipv6[] = {
    {{{0}, 96}, ADDRESS_LOOPBACK}, /* ::1, unspecified, IPv4-compatible */
    {{{0xfe, 0x80}, 10}, ADDRESS_LINK_LOCAL},
    {TRANSLATED, ADDRESS_PUBLIC},
    {TEREDO, ADDRESS_PUBLIC},
    {{{0x20, 0x01}, 23}, ADDRESS_PRIVATE}, /* assignments (RFC 2928) */
    {{{0x20, 0x01, 0x0d, 0xb8}, 32}, ADDRESS_PRIVATE}, /* RFC 3849 */
    {{{0x3f, 0xff}, 20}, ADDRESS_PRIVATE}, /* documentation (RFC 9637) */
};

/* Tunnels: these addresses are reached by way of the IPv4 address in them. */
static const struct network sixtofour = {{0x20, 0x02}, 16}; /* RFC 3056 */
static const struct network translated = TRANSLATED;
static const struct network teredo = TEREDO;

/* Networks */

static void
set_mapped(unsigned char to[16], const void *ipv4)
{
    memset(to, 0, 10);
    memset(to + 10, 0xff, 2);
    memcpy(to + MAPPED_BYTES, ipv4, 4);
}

bool
address_is_mapped(const unsigned char address[16])
{
    static const unsigned char prefix[MAPPED_BYTES] = {
        [10] = 0xff,
        [11] = 0xff,
    };

    return !memcmp(address, prefix, sizeof(prefix));
}

/* The byte at `i` of a mask of `length` bits. */
static unsigned
mask_byte(unsigned length, unsigned i)
{
    unsigned before = 8 * i;

    if (length <= before)
        return 0;
    return length >= before + 8 ? 0xff : 0xffu << (before + 8 - length) & 0xff;
}

/* "::/0" is all of IPv6 and none of IPv4; 0.0.0.0/0 is all of IPv4. */
static bool
contains_address(const struct network *network, const unsigned char address[16])
{
    if (network->length < MAPPED_BITS && address_is_mapped(address))
        return false;
    for (unsigned i = 0; i < 16; i++)
        if ((address[i] ^ network->address[i]) & mask_byte(network->length, i))
            return false;
    return true;
}

static enum status
read_network(struct slice text, struct network *network, struct problem *why)
{
    char address[NETWORK_TEXT_MAX];
    struct slice rest = text, front = slice_take(&rest, '/');
    bool has_length = front.size < text.size, is_ipv4;
    unsigned char ipv4[4];
    unsigned most, bits = 0;
    uint64_t length;

    if (!slice_copy(address, sizeof(address), front))
        goto invalid;

    is_ipv4 = inet_pton(AF_INET, address, ipv4) == 1;
    if (is_ipv4)
        set_mapped(network->address, ipv4);
    else if (inet_pton(AF_INET6, address, network->address) != 1)
        goto invalid;

    most = is_ipv4 ? BITS_IPV4 : BITS;
    length = most;
    if (has_length && (!number_read_plain(rest, &length) || length > most))
        return problem(why, STATUS_INVALID,
                       "a length of 0 to %u must stand behind the / of \"%s\"",
                       most, problem_quote(text).text);
    network->length = (unsigned)length + (is_ipv4 ? MAPPED_BITS : 0);
    for (unsigned i = 0; i < 16; i++)
        bits |= network->address[i] & ~mask_byte(network->length, i);
    if (bits)
        return problem(why, STATUS_INVALID,
                       "\"%s\" has bits set beyond its length of %u",
                       problem_quote(text).text, (unsigned)length);
    return STATUS_OK;

invalid:
    return problem(why, STATUS_INVALID,
                   "\"%s\" is no network: it is written like 10.1.0.0/16 or "
                   "fd00:1::/32",
                   problem_quote(text).text);
}

enum status
networks_read(struct slice text, bool may_have_unix, struct networks *networks,
              struct problem *why)
{
    bool is_last;

    networks->n = 0;
    networks->has_unix = false;
    atomic_init(&networks->successor, NULL);
    if (slice_trimmed(text).size == 0)
        return STATUS_OK;
    do {
        size_t before = text.size;
        struct slice part = slice_take(&text, ',');

        is_last = part.size == before;
        if (may_have_unix && slice_is(slice_trimmed(part), "unix")) {
            networks->has_unix = true;
            continue;
        }
        if (networks->n == NETWORKS_MAX)
            return problem(why, STATUS_INVALID,
                           "more than %d networks are listed", NETWORKS_MAX);
        if (read_network(slice_trimmed(part), &networks->all[networks->n], why))
            return STATUS_INVALID;
        networks->n++;
    } while (!is_last);
    return STATUS_OK;
}

void
networks_replace(struct networks *networks, const struct networks *successor)
{
    /* Release: a thread that reads the pointer also reads the networks. */
    atomic_store_explicit(&networks->successor, successor,
                          memory_order_release);
}

const struct networks *
networks_latest(const struct networks *networks)
{
    const struct networks *successor =
        networks
            ? atomic_load_explicit(&networks->successor, memory_order_acquire)
            : NULL;

    return successor ? successor : networks;
}

void
networks_add_loopback(struct networks *networks)
{
    static const struct network loopback[] = {
        {{[10] = 0xff, 0xff, 127}, MAPPED_BITS + 8},
        {{[15] = 1}, BITS},
    };

    for (size_t i = 0; i < N_ELEMENTS(loopback); i++)
        if (networks->n < NETWORKS_MAX)
            networks->all[networks->n++] = loopback[i];
}

/* Judging */

static bool
is_listed(const struct networks *networks, const unsigned char address[16])
{
    for (unsigned i = 0; networks && i < networks->n; i++)
        if (contains_address(&networks->all[i], address))
            return true;
    return false;
}

/* The reach of the first network that contains the address. */
static enum address_reach
reach_in(const struct reaching *all, size_t n, const unsigned char address[16],
         enum address_reach otherwise)
{
    for (size_t i = 0; i < n; i++)
        if (contains_address(&all[i].network, address))
            return all[i].reach;
    return otherwise;
}

static enum address_reach
farther_reach(enum address_reach a, enum address_reach b)
{
    return a > b ? a : b;
}

static enum address_reach
reach_of_ipv4(const struct networks *allowed, const void *ipv4)
{
    unsigned char address[16];

    set_mapped(address, ipv4);
    if (is_listed(allowed, address))
        return ADDRESS_PUBLIC;
    return reach_in(special_ipv4, N_ELEMENTS(special_ipv4), address,
                    ADDRESS_PUBLIC);
}

bool
address_bytes(const struct sockaddr *address, unsigned char bytes[16])
{
    if (address->sa_family == AF_INET)
        set_mapped(bytes, (const char *)address +
                              offsetof(struct sockaddr_in, sin_addr));
    else if (address->sa_family == AF_INET6)
        memcpy(bytes,
               (const char *)address + offsetof(struct sockaddr_in6, sin6_addr),
               16);
    else
        return false;
    return true;
}

bool
networks_contain(const struct networks *networks,
                 const struct sockaddr *address)
{
    unsigned char bytes[16];

    if (address->sa_family == AF_UNIX)
        return networks->has_unix;
    return address_bytes(address, bytes) && is_listed(networks, bytes);
}

enum address_reach
address_reach(const struct networks *allowed, const struct sockaddr *address)
{
    /* In an interface identifier of ISATAP (RFC 5214 section 6.1). */
    static const unsigned char isatap[] = {0x00, 0x5e, 0xfe};
    unsigned char bytes[16], client[4];
    enum address_reach own = ADDRESS_PUBLIC; /* without an address inside it */

    if (!address_bytes(address, bytes))
        return ADDRESS_LOOPBACK;
    if (address_is_mapped(bytes))
        return reach_of_ipv4(allowed, bytes + MAPPED_BYTES);
    if (!is_listed(allowed, bytes))
        own = reach_in(special_ipv6, N_ELEMENTS(special_ipv6), bytes,
                       contains_address(&global_unicast, bytes)
                           ? ADDRESS_PUBLIC
                           : ADDRESS_PRIVATE);
    if (contains_address(&teredo, bytes)) {
        /* The server's, and the client's with all bits turned over. */
        for (unsigned i = 0; i < sizeof(client); i++)
            client[i] = bytes[12 + i] ^ 0xff;
        own = farther_reach(own, reach_of_ipv4(allowed, bytes + 4));
        return farther_reach(own, reach_of_ipv4(allowed, client));
    }
    if (contains_address(&sixtofour, bytes))
        return farther_reach(own, reach_of_ipv4(allowed, bytes + 2));
    if (contains_address(&translated, bytes) ||
        (!(bytes[8] & ~0x02u) && !memcmp(bytes + 9, isatap, sizeof(isatap))))
        return farther_reach(own, reach_of_ipv4(allowed, bytes + 12));
    return own;
}

/* Text */

bool
address_read(const char *text, struct sockaddr_storage *address)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    size_t size = strcspn(text, "%");
    char plain[INET6_ADDRSTRLEN];

    memset(address, 0, sizeof(*address));
    if (size >= sizeof(plain))
        return false;
    memcpy(plain, text, size);
    plain[size] = '\0';
    if (inet_pton(AF_INET, plain, &four.sin_addr) == 1)
        memcpy(address, &four, sizeof(four));
    else if (inet_pton(AF_INET6, plain, &six.sin6_addr) == 1)
        memcpy(address, &six, sizeof(six));
    else
        return false;
    return true;
}

bool
address_read_bracketed(struct slice host, struct in6_addr *address)
{
    char text[INET6_ADDRSTRLEN];

    return host.size >= 2 && host.data[0] == '[' &&
           host.data[host.size - 1] == ']' &&
           slice_copy(text, sizeof(text),
                      (struct slice){host.data + 1, host.size - 2}) &&
           inet_pton(AF_INET6, text, address) == 1;
}

bool
address_is_loopback_host(struct slice host)
{
    struct sockaddr_storage address;
    unsigned char bytes[16];
    char text[NETWORK_TEXT_MAX];

    if (host.size > 2 && host.data[0] == '[' && host.data[host.size - 1] == ']')
        host = (struct slice){host.data + 1, host.size - 2};
    if (slice_is_word(host, "localhost"))
        return true;
    return slice_copy(text, sizeof(text), host) &&
           address_read(text, &address) &&
           address_bytes((const struct sockaddr *)&address, bytes) &&
           (address_is_mapped(bytes)
                ? bytes[MAPPED_BYTES] == 127
                : !memcmp(bytes, &in6addr_loopback, sizeof(bytes)));
}
