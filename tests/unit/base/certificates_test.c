#include "base/certificates.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* Each system of these has its file of authorities elsewhere. */
static const char *const files[] = {
    "/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine, Arch */
    "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem", /* openSUSE */
    "/etc/ssl/cert.pem",
};

TEST(the_file_of_authorities_of_each_system_is_found)
{
    for (size_t i = 0; i < N_ELEMENTS(files); i++) {
        char root[300], path[400], found[400] = "";

        snprintf(root, sizeof(root), "%s/%zu", tempdir_path(state), i);
        snprintf(path, sizeof(path), "%s%s", root, files[i]);
        *strrchr(path, '/') = '\0';
        assert_int_equal(file_make_dirs(path, NULL), STATUS_OK);
        assert_false(certificates_find_system(root, found, sizeof(found)));
        path[strlen(path)] = '/';
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));

        assert_true(certificates_find_system(root, found, sizeof(found)));

        assert_string_equal(found, path);
    }
}

TEST(a_path_that_is_too_long_is_not_found)
{
    char found[8];

    assert_false(certificates_find_system("", found, sizeof(found)));
}

/* The system's file stands where this OpenSSL looks: nothing is to be set. */
TEST(the_environment_stays_where_openssl_finds_its_own)
{
    unsetenv("SSL_CERT_FILE");

    certificates_use_system();

    assert_null(getenv("SSL_CERT_FILE"));
}
