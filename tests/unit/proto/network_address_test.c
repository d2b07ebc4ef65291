#include "proto/http/network_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "tests/test.h"

static bool
may(const struct networks *allowed, const char *text)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};

    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        return address_reach(allowed, (struct sockaddr *)&four) ==
               ADDRESS_PUBLIC;
    assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
    return address_reach(allowed, (struct sockaddr *)&six) == ADDRESS_PUBLIC;
}

/* All that is refused, by its first and last address; and the addresses just
 * outside, which are public unless another range begins there. */
static const struct {
    const char *first, *last;
    const char *before, *after; /* NULL: another range */
} ranges[] = {
    {"0.0.0.0", "0.255.255.255", NULL, "1.0.0.0"},
    {"10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"},
    {"100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"},
    {"127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"},
    {"169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"},
    {"172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"},
    {"192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"},
    {"192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"},
    {"192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"},
    {"192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"},
    {"198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"},
    {"198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"},
    {"203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"},
    {"224.0.0.0", "239.255.255.255", "223.255.255.255", NULL},
    {"240.0.0.0", "255.255.255.255", NULL, NULL},
    {"::", "::", NULL, NULL},
    {"::1", "::1", NULL, NULL},
    {"::2", "::fffe:ffff:ffff", NULL, NULL},
    {"0:0:0:0:ffff:0:0:0", "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", NULL,
     "64:ff9b::808:808"},
    {"64:ff9b::1:0:0", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
     "64:ff9b::808:808", "2000::"},
    {"64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"100::", "100::ffff:ffff:ffff:ffff", NULL, NULL},
    {"100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff", NULL, NULL},
    {"2001:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "2001:200::"},
    {"2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"2001:10::", "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
     "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"},
    {"3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
     "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"},
    {"4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
     "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL},
    {"5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
    {"ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, NULL},
};

/* W-160: IANA's registries of special-purpose addresses (RFC 6890), multicast,
 * and unassigned addresses. */
TEST(special_ranges_are_refused_to_their_edges)
{
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (may(NULL, ranges[i].first) || may(NULL, ranges[i].last))
            fail_msg("%s to %s", ranges[i].first, ranges[i].last);
        if (ranges[i].before && !may(NULL, ranges[i].before))
            fail_msg("%s is public", ranges[i].before);
        if (ranges[i].after && !may(NULL, ranges[i].after))
            fail_msg("%s is public", ranges[i].after);
    }
}

TEST(public_addresses_may_be_called)
{
    static const char *const all[] = {"1.1.1.1",
                                      "8.8.8.8",
                                      "93.184.216.34",
                                      "192.31.196.1",
                                      "192.52.193.1",
                                      "192.175.48.1",
                                      "2606:2800:220:1:248:1893:25c8:1946",
                                      "2001:4860:4860::8888",
                                      "2620:4f:8000::1",
                                      "2a00::1"};
    struct networks none = {.n = 0};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_true(may(NULL, all[i]));
        assert_true(may(&none, all[i]));
    }
}

/* An IPv4 address in the forms of IPv6 that lead to it. %02x is a byte; those
 * of a Teredo client are inverted. */
static const struct {
    const char *form;
    bool is_turned;
    bool is_refused_itself;
} forms[] = {
    {"::ffff:%02x%02x:%02x%02x", false, false},               /* mapped */
    {"::%02x%02x:%02x%02x", false, true},                     /* compatible */
    {"::ffff:0:%02x%02x:%02x%02x", false, true},              /* SIIT */
    {"64:ff9b::%02x%02x:%02x%02x", false, false},             /* NAT64 */
    {"64:ff9b:1::%02x%02x:%02x%02x", false, true},            /* local NAT64 */
    {"2002:%02x%02x:%02x%02x::1", false, false},              /* 6to4 */
    {"2001:0:%02x%02x:%02x%02x:0:0:f7f7:f7f7", false, false}, /* server */
    {"2001:0:808:808:0:0:%02x%02x:%02x%02x", true, false},    /* client */
    {"2a00::5efe:%02x%02x:%02x%02x", false, false},           /* ISATAP */
    {"2a00::200:5efe:%02x%02x:%02x%02x", false, false},
};

static const char *
in_form(size_t i, const char *ipv4)
{
    static char text[100];
    unsigned char b[4];

    assert_int_equal(inet_pton(AF_INET, ipv4, b), 1);
    for (unsigned k = 0; forms[i].is_turned && k < 4; k++)
        b[k] ^= 0xff;
    snprintf(text, sizeof(text), forms[i].form, b[0], b[1], b[2], b[3]);
    return text;
}

/* W-160, W-161 */
TEST(addresses_in_addresses_are_judged)
{
    static const char *const bad[] = {
        "127.0.0.1",   "10.1.2.3",  "0.0.0.0",        "169.254.169.254",
        "192.168.0.1", "224.0.0.1", "255.255.255.255"};
    struct networks allowed = {.n = 0};

    networks_add_loopback(&allowed);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++)
            if (may(NULL, in_form(i, bad[k])))
                fail_msg("%s", in_form(i, bad[k]));
        if (may(NULL, in_form(i, "8.8.8.8")) == forms[i].is_refused_itself)
            fail_msg("%s", in_form(i, "8.8.8.8"));
        /* An allowed address is allowed in every form. */
        if (may(&allowed, in_form(i, "127.0.0.1")) ==
            forms[i].is_refused_itself)
            fail_msg("%s with loopback", in_form(i, "127.0.0.1"));
        assert_false(may(&allowed, in_form(i, "10.0.0.1")));
    }
}

TEST(what_is_no_address_of_the_internet_is_refused)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/tmp/a"};
    struct networks all;

    assert_int_equal(networks_read(SLICE("0.0.0.0/0,::/0"), false, &all, NULL),
                     0);
    assert_false(address_reach(&all, (struct sockaddr *)&local) ==
                 ADDRESS_PUBLIC);
}

static enum address_reach
reach(const struct networks *allowed, const char *text)
{
    struct sockaddr_storage address;

    if (!address_read(text, &address))
        fail_msg("%s is no address", text);
    return address_reach(allowed, (struct sockaddr *)&address);
}

/* The greatest one of all that are inside counts. */
TEST(addresses_have_a_reach)
{
    static const struct {
        const char *text;
        enum address_reach reach;
    } rows[] = {
        {"8.8.8.8", ADDRESS_PUBLIC},
        {"2a00::1", ADDRESS_PUBLIC},
        {"64:ff9b::808:808", ADDRESS_PUBLIC},
        {"10.0.0.1", ADDRESS_PRIVATE},
        {"100.64.0.1", ADDRESS_PRIVATE},
        {"192.168.0.1", ADDRESS_PRIVATE},
        {"fd00::1", ADDRESS_PRIVATE},
        {"64:ff9b::a00:1", ADDRESS_PRIVATE},
        {"2002:c0a8:1::1", ADDRESS_PRIVATE},
        {"169.254.169.254", ADDRESS_LINK_LOCAL},
        {"::ffff:169.254.169.254", ADDRESS_LINK_LOCAL},
        {"fe80::1", ADDRESS_LINK_LOCAL},
        {"fe80::1%eth0", ADDRESS_LINK_LOCAL},
        {"127.0.0.1", ADDRESS_LOOPBACK},
        {"0.0.0.0", ADDRESS_LOOPBACK},
        {"::1", ADDRESS_LOOPBACK},
        {"::", ADDRESS_LOOPBACK},
        {"::ffff:127.0.0.1", ADDRESS_LOOPBACK},
        {"64:ff9b::7f00:1", ADDRESS_LOOPBACK},
        {"2001:0:a00:1:0:0:80ff:fffe", ADDRESS_LOOPBACK}, /* the greater one */
    };
    struct networks some;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (reach(NULL, rows[i].text) != rows[i].reach)
            fail_msg("%s: %d", rows[i].text, reach(NULL, rows[i].text));
    assert_int_equal(networks_read(SLICE("10.0.0.0/8"), false, &some, NULL), 0);
    assert_int_equal(reach(&some, "10.0.0.1"), ADDRESS_PUBLIC);
    assert_int_equal(reach(&some, "127.0.0.1"), ADDRESS_LOOPBACK);
}

/* A name that only resolves to loopback is none of this machine's. */
TEST(hosts_of_loopback_are_written_so)
{
    static const char *const good[] = {"127.0.0.1", "127.77.1.1",
                                       "[::1]",     "localhost",
                                       "LocalHost", "[::ffff:127.0.0.1]"};
    static const char *const bad[] = {"",
                                      "[]",
                                      "0.0.0.0",
                                      "[::]",
                                      "[::2]",
                                      "[::127.0.0.1]",
                                      "10.0.0.1",
                                      "127.example.org",
                                      "[fe80::1]",
                                      "example.org",
                                      "localhost.example.org",
                                      "127.1"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!address_is_loopback_host(slice_of(good[i])))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (address_is_loopback_host(slice_of(bad[i])))
            fail_msg("%s", bad[i]);
}

/* W-160: "unless allowed by a setting" */
TEST(lists_are_kept_to_exactly)
{
    static const struct {
        const char *list; /* NULL: networks_add_loopback */
        unsigned n;
        const char *allowed[8], *refused[8];
    } rows[] = {
        {" 10.1.0.0/16 , 192.168.1.7,fd00:1::/32,\t::1/128",
         4,
         {"10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "192.168.1.7",
          "fd00:1:2::3", "::1", "8.8.8.8"},
         {"10.0.255.255", "10.2.0.0", "192.168.1.6", "192.168.1.8",
          "fd00:2::", "127.0.0.1"}},
        {"", 0, {"8.8.8.8"}, {"127.0.0.1"}},
        {"  ", 0, {"8.8.8.8"}, {"127.0.0.1"}},
        /* Odd lengths; all of one kind is nothing of the other. */
        {"172.16.0.0/12,169.254.128.0/17",
         2,
         {"172.31.255.255", "169.254.128.0"},
         {"169.254.127.255"}},
        {"0.0.0.0/0", 1, {"127.0.0.1"}, {"::1"}},
        {"::/0",
         1,
         {"::1", "fe80::1"},
         {"127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"}},
        {"::ffff:10.0.0.0/104", 1, {"10.255.0.1"}, {"127.0.0.1"}},
        {NULL,
         2,
         {"127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"},
         {"10.0.0.1", "::2"}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct problem why = {"", 0, 0};
        struct networks n = {.n = 0};

        if (!rows[i].list)
            networks_add_loopback(&n);
        else if (networks_read(slice_of(rows[i].list), false, &n, &why))
            fail_msg("%s: %s", rows[i].list, why.text);
        assert_int_equal(n.n, rows[i].n);
        for (size_t k = 0; rows[i].allowed[k]; k++)
            if (!may(&n, rows[i].allowed[k]))
                fail_msg("row %zu refuses %s", i, rows[i].allowed[k]);
        for (size_t k = 0; rows[i].refused[k]; k++)
            if (may(&n, rows[i].refused[k]))
                fail_msg("row %zu allows %s", i, rows[i].refused[k]);
    }
}

/* networks_latest returns the list that replaced the first one last. */
TEST(a_list_can_be_replaced)
{
    struct networks first, second, third;

    assert_int_equal(networks_read(SLICE("10.0.0.0/8"), false, &first, NULL),
                     0);
    assert_int_equal(networks_read(SLICE("127.0.0.1"), false, &second, NULL),
                     0);
    assert_int_equal(networks_read(SLICE(""), false, &third, NULL), 0);
    assert_null(networks_latest(NULL));
    assert_true(may(networks_latest(&first), "10.1.2.3"));

    networks_replace(&first, &second);
    assert_false(may(networks_latest(&first), "10.1.2.3"));
    assert_true(may(networks_latest(&first), "127.0.0.1"));
    networks_replace(&first, &third);
    assert_false(may(networks_latest(&first), "127.0.0.1"));
}

TEST(what_is_no_network_is_said)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {",", "\"\" is no network"},
        {"10.0.0.0/8,", "\"\" is no network"},
        {",10.0.0.0/8", "\"\" is no network"},
        {"localhost", "\"localhost\" is no network"},
        {"10.0.0.0/8 ::1", "\"10.0.0.0/8 ::1\""},
        {"10.0.0", "is no network"},
        {"10", "is no network"},
        {"0x0a000000/8", "is no network"},
        {"010.0.0.0/8", "is no network"},
        {"10.0.0.256/32", "is no network"},
        {"[::1]", "is no network"},
        {"::1%lo", "is no network"},
        {"/8", "is no network"},
        {"10.0.0.0/", "a length of 0 to 32"},
        {"10.0.0.0/33", "a length of 0 to 32"},
        {"10.0.0.0/-1", "a length of 0 to 32"},
        {"10.0.0.0/08", "a length of 0 to 32"},
        {"10.0.0.0/8/8", "a length of 0 to 32"},
        {"10.0.0.0/255.0.0.0", "a length of 0 to 32"},
        {"10.0.0.0/1000000000000000000000", "a length of 0 to 32"},
        {"::/129", "a length of 0 to 128"},
        {"10.0.0.1/8", "\"10.0.0.1/8\" has bits set beyond its length of 8"},
        {"::1/127", "beyond its length of 127"},
        {"::ffff:10.0.0.0/95", "beyond its length of 95"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "is no network"},
    };
    struct networks n;
    struct problem why;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        why = (struct problem){"", 0, 0};
        assert_int_equal(networks_read(slice_of(bad[i].text), false, &n, &why),
                         STATUS_INVALID);
        if (!strstr(why.text, bad[i].why))
            fail_msg("%s: %s", bad[i].text, why.text);
        assert_int_equal(networks_read(slice_of(bad[i].text), false, &n, NULL),
                         STATUS_INVALID);
    }
    /* Bytes are no string. */
    assert_int_equal(
        networks_read((struct slice){"::1\0x", 5}, false, &n, NULL),
        STATUS_INVALID);
}

/* Peers of unix sockets have no address; only a list of proxies can name
 * them. */
TEST(a_list_of_proxies_may_have_unix_sockets)
{
    static const struct {
        const char *text;
        bool has_unix, has_loopback;
    } rows[] = {{"unix", true, false},
                {"127.0.0.1, unix", true, true},
                {" unix ,127.0.0.1", true, true},
                {"127.0.0.1", false, true},
                {"", false, false}};
    struct sockaddr peer = {.sa_family = AF_UNIX};
    struct networks n;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(networks_read(slice_of(rows[i].text), true, &n, NULL),
                         STATUS_OK);
        assert_int_equal(networks_contain(&n, &peer), rows[i].has_unix);
        assert_int_equal(may(&n, "127.0.0.1"), rows[i].has_loopback);
        assert_int_equal(n.n, rows[i].has_loopback);
    }
    assert_int_equal(networks_read(SLICE("Unix"), true, &n, NULL),
                     STATUS_INVALID);
    assert_int_equal(networks_read(SLICE("unix/8"), true, &n, NULL),
                     STATUS_INVALID);
    assert_int_equal(networks_read(SLICE("unix"), false, &n, NULL),
                     STATUS_INVALID);
    assert_int_equal(networks_read(SLICE("127.0.0.1"), false, &n, NULL),
                     STATUS_OK);
    assert_false(networks_contain(&n, &peer));
}

TEST(a_list_has_an_end)
{
    char text[NETWORKS_MAX * 16 + 32] = "10.0.0.0/8";
    struct networks n;
    struct problem why = {"", 0, 0};

    for (unsigned i = 1; i < NETWORKS_MAX; i++)
        strcat(text, ",10.0.0.0/8");
    assert_int_equal(networks_read(slice_of(text), false, &n, &why), STATUS_OK);
    assert_int_equal(n.n, NETWORKS_MAX);
    strcat(text, ",10.0.0.0/8");
    assert_int_equal(networks_read(slice_of(text), false, &n, &why),
                     STATUS_INVALID);
    assert_string_equal(why.text, "more than 64 networks are listed");
}
