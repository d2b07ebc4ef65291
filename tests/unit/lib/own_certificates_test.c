#include "client/lib/own_certificates.h"

#include "tests/support/certificate.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define A "https://a.example/sets/news"
#define B "https://b.example:8443/sets/news"

/* td_client_set_certificate: a server gets its own, and no other server gets
 * one: no redirect or document leads a certificate astray. */
TEST(each_certificate_is_for_one_server)
{
    struct own_certificate *list = NULL;
    struct problem why = {""};
    struct tempdir dir;
    struct certificate c;

    tempdir_open(&dir);
    certificate_make(&c, dir.path, NULL);
    assert_int_equal(own_certificates_set(&list, A, c.cert, c.key, &why),
                     STATUS_OK);
    assert_null(own_certificates_find(list, B));
    assert_int_equal(own_certificates_set(&list, B, c.cert, c.key, &why),
                     STATUS_OK);
    assert_string_equal(
        own_certificates_find(list, "https://A.example:443/")->cert, c.cert);
    assert_string_equal(own_certificates_find(list, B)->key, c.key);
    assert_null(own_certificates_find(list, "http://a.example/sets/news"));
    assert_null(own_certificates_find(list, "https://a.example:8443/"));
    assert_null(own_certificates_find(list, "https://b.example/"));

    /* A fault leaves the former one. */
    assert_int_equal(own_certificates_set(&list, A, c.key, c.key, &why),
                     STATUS_IO);
    assert_int_equal(own_certificates_set(&list, A, c.cert, NULL, &why),
                     STATUS_IO);
    assert_int_equal(
        own_certificates_set(&list, "http://a.example/", c.cert, c.key, &why),
        STATUS_INVALID);
    assert_non_null(own_certificates_find(list, A));
    assert_int_equal(own_certificates_set(&list, A, NULL, NULL, &why),
                     STATUS_OK);
    assert_null(own_certificates_find(list, A));
    assert_non_null(own_certificates_find(list, B));
    own_certificates_free(list);
    tempdir_close(&dir);
}
