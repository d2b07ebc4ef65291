#include "client/lib/servers.h"
#include "tests/support/certificate.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define A "https://a.example/sets/news"
#define B "https://b.example:8443/sets/news"

/* The server, if it gets a certificate. */
static const struct server *
certificate_of(const struct servers *servers, const char *url)
{
    const struct server *server = servers_find(servers, url);

    return server && server->cert ? server : NULL;
}

/* td_client_set_certificate: a server gets its own, and no other server gets
 * one: no redirect or document leads a certificate astray. */
TEST(each_certificate_is_for_one_server)
{
    struct servers servers = {NULL};
    struct problem why = {""};
    struct tempdir dir;
    struct certificate c;

    tempdir_open(&dir);
    certificate_make(&c, dir.path, NULL);
    assert_int_equal(servers_set_certificate(&servers, A, c.cert, c.key, &why),
                     STATUS_OK);
    assert_null(certificate_of(&servers, B));
    assert_int_equal(servers_set_certificate(&servers, B, c.cert, c.key, &why),
                     STATUS_OK);
    assert_string_equal(
        certificate_of(&servers, "https://A.example:443/")->cert, c.cert);
    assert_string_equal(certificate_of(&servers, B)->key, c.key);
    assert_null(certificate_of(&servers, "http://a.example/sets/news"));
    assert_null(certificate_of(&servers, "https://a.example:8443/"));
    assert_null(certificate_of(&servers, "https://b.example/"));

    /* A fault leaves the former one. */
    assert_int_equal(servers_set_certificate(&servers, A, c.key, c.key, &why),
                     STATUS_IO);
    assert_int_equal(servers_set_certificate(&servers, A, c.cert, NULL, &why),
                     STATUS_IO);
    assert_int_equal(servers_set_certificate(&servers, "http://a.example/",
                                             c.cert, c.key, &why),
                     STATUS_INVALID);
    assert_non_null(certificate_of(&servers, A));
    assert_int_equal(servers_set_certificate(&servers, A, NULL, NULL, &why),
                     STATUS_OK);
    assert_null(certificate_of(&servers, A));
    assert_non_null(certificate_of(&servers, B));
    servers_fini(&servers);
    tempdir_close(&dir);
}
