#include "proto/http/forwarded.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/test.h"

static const char *
name(const struct sockaddr_storage *address)
{
    static char text[INET6_ADDRSTRLEN];
    const void *at =
        address->ss_family == AF_INET
            ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
            : &((const struct sockaddr_in6 *)address)->sin6_addr;

    return inet_ntop(address->ss_family, at, text, sizeof(text));
}

/* The last address that no trusted proxy has. `client` NULL: the client is
 * unknown. */
TEST(finds_whom_a_proxy_serves)
{
    static const struct {
        const char *forwarded, *x_forwarded_for, *client;
    } rows[] = {
        {"", "", NULL},
        /* X-Forwarded-For */
        {"", "192.0.2.1", "192.0.2.1"},
        {"", " 192.0.2.1\t", "192.0.2.1"},
        {"", "192.0.2.1:4711", "192.0.2.1"},
        {"", "2001:db8::1", "2001:db8::1"},
        {"", "[2001:db8::1]", "2001:db8::1"},
        {"", "[2001:db8::1]:80", "2001:db8::1"},
        {"", "192.0.2.1, 192.0.2.2", "192.0.2.2"},
        {"", "192.0.2.1,192.0.2.2,10.0.0.7", "192.0.2.2"},
        {"", "192.0.2.1,10.0.0.8, 10.0.0.7", "192.0.2.1"},
        {"", "192.0.2.1, fd00::5", "192.0.2.1"},
        {"", "10.0.0.8, 10.0.0.7", NULL},
        {"", "10.0.0.8,192.0.2.1", "192.0.2.1"},
        /* the text of a client is ignored */
        {"", "nonsense\"%, 192.0.2.1", "192.0.2.1"},
        {"", "192.0.2.1, nonsense, 10.0.0.7", NULL},
        {"", "192.0.2.1, unknown", NULL},
        {"", ", ,192.0.2.1,,", "192.0.2.1"},
        {"", ",", NULL},
        {"", "192.0.2.1:", NULL},
        {"", "192.0.2.1:123456", NULL},
        {"", "192.0.2.1:x", NULL},
        {"", "192.0.2.1:80:80", NULL},
        {"", "192.0.2.256", NULL},
        {"", "192.0.2.1 x", NULL},
        {"", "0xc0.0.2.1", NULL},
        {"", "[192.0.2.1]", NULL},
        {"", "[2001:db8::1", NULL},
        {"", "[2001:db8::1]80", NULL},
        {"", "fe80::1%eth0", NULL},
        {"", "[]", NULL},
        {"", "\"192.0.2.1\"", NULL},
        /* Forwarded */
        {"for=192.0.2.1", "", "192.0.2.1"},
        {"For=192.0.2.1;proto=http;by=203.0.113.4", "", "192.0.2.1"},
        {"proto=http; FOR=\"192.0.2.1:80\"", "", "192.0.2.1"},
        {"for=\"[2001:db8::1]\"", "", "2001:db8::1"},
        {"for=\"[2001:db8::1]:_port\"", "", "2001:db8::1"},
        {"for=\"192.0.2.\\1\"", "", "192.0.2.1"},
        {"for=192.0.2.1, for=192.0.2.2", "", "192.0.2.2"},
        {"for=192.0.2.1,for=10.0.0.7 , for=10.0.0.8", "", "192.0.2.1"},
        {"for=10.0.0.7", "", NULL},
        {"for=192.0.2.1,for=unknown", "", NULL},
        {"for=unknown, for=192.0.2.1", "", "192.0.2.1"},
        {"for=192.0.2.1,for=_hidden,for=10.0.0.7", "", NULL},
        {"for=192.0.2.1,proto=http", "", NULL},
        {"for=192.0.2.1, , ;,", "", "192.0.2.1"},
        {"for=2001:db8::1", "", NULL},        /* quoted only */
        {"for=\"2001:db8::1\"", "", NULL},    /* in brackets only */
        {"for=[2001:db8::1]", "", NULL},      /* no token */
        {"for=192.0.2.1:80", "", NULL},       /* no token */
        {"for=\"x, for=192.0.2.1", "", NULL}, /* swallows a proxy's word */
        {"for=\"x\\\", for=192.0.2.1", "", NULL},
        {"for=\"\\", "", NULL},
        {"for=a;for=192.0.2.1", "", NULL},
        {"for =192.0.2.1", "", NULL},
        {"for= 192.0.2.1", "", NULL},
        {"for", "", NULL},
        {"=192.0.2.1", "", NULL},
        {"nonsense, for=192.0.2.1", "", NULL},
        {"for=\"0123456789012345678901234567890123456789012345678901234567890"
         "123456789\", for=192.0.2.1",
         "", "192.0.2.1"},
        /* both have to agree */
        {"for=192.0.2.1", "192.0.2.1", "192.0.2.1"},
        {"for=192.0.2.9, for=192.0.2.1", "10.1.1.1, 192.0.2.1", "192.0.2.1"},
        {"for=192.0.2.1", "192.0.2.2", NULL},
        {"for=192.0.2.1", "unknown", NULL},
        {"for=unknown", "192.0.2.1", NULL},
    };
    struct networks trusted;

    assert_int_equal(
        networks_read(SLICE("10.0.0.0/24,fd00::/16"), false, &trusted, NULL),
        0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sockaddr_storage client;
        bool is_found = forwarded_client(slice_of(rows[i].forwarded),
                                         slice_of(rows[i].x_forwarded_for),
                                         &trusted, &client);

        if (is_found != (rows[i].client != NULL) ||
            (is_found && strcmp(name(&client), rows[i].client) != 0))
            fail_msg("Forwarded: %s, X-Forwarded-For: %s: is %s, not %s",
                     rows[i].forwarded, rows[i].x_forwarded_for,
                     is_found ? name(&client) : "nobody",
                     rows[i].client ? rows[i].client : "nobody");
    }
}
