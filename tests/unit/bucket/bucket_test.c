/*
 * bucket_test.c - addresses of buckets, and credentials. e2e/bucket has the
 * requests.
 */
#include "broker/bucket/bucket.h"

#include <sys/stat.h>

#include "tests/support/tempdir.h"
#include "tests/test.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* Writes the file of credentials, and returns its path. */
static const char *
write_credentials(void **state, const char *text, mode_t mode)
{
    static char path[500];
    FILE *file;

    snprintf(path, sizeof(path), "%s/s3", tempdir_path(state));
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_false(chmod(path, mode));
    return path;
}

static enum status
try_bucket(const char *address, const char *credentials, struct problem *why)
{
    const struct bucket_options options = {.address = address,
                                           .credentials = credentials};
    struct bucket *bucket;
    enum status rc = bucket_open(&bucket, &options, why);

    bucket_close(bucket);
    return rc;
}

TEST(names_what_is_wrong_with_an_address)
{
    static const struct {
        const char *text, *why; /* NULL: it is good */
    } rows[] = {
        {"s3://tidings/a/b?endpoint=https://minio.example:9000&region=eu",
         NULL},
        {"s3://tid.ings?region=eu-west-1", NULL},
        {"s3://tidings/?endpoint=http://127.0.0.1:9000", NULL},
        {"s3://tidings?endpoint=http://[::1]:9000", NULL},
        {"", "wrong at byte 1"},
        {"https://tidings/a", "wrong at byte 1"},
        {"s3://", "wrong at byte 1"},
        {"s3://user:secret@tidings/b?region=eu", "wrong at byte 10"},
        {"s3://tidings/a", "wrong at byte 15"},
        {"s3://tidings/a b?region=eu", "wrong at byte 15"},
        {"s3://tidings/a?region=e%2Fu", "wrong at byte 24"},
        {"s3://tidings/a?region=", "wrong at byte 15"},
        {"s3://tidings/a?region=eu&key=x", "wrong at byte 25"},
        {"s3://tidings?endpoint=ftp://host", "its endpoint is https://"},
        {"s3://tidings?endpoint=minio", "its endpoint is https://"},
        {"s3://tidings?endpoint=https://host/path", "its endpoint is https://"},
        {"s3://tidings?endpoint=https://u:p@host", "wrong at byte 34"},
        {"s3://tidings?endpoint=http://minio:9000", "http:// only of this"},
        {"s3://tidings?endpoint=http://10.0.0.1:9000", "http:// only of this"},
    };

    const char *credentials = write_credentials(state, "AKIA\ns3cr3t\n", 0600);

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct problem why = {""};
        enum status rc = try_bucket(rows[i].text, credentials, &why);

        if (rc != (rows[i].why ? STATUS_INVALID : STATUS_OK) ||
            !strstr(why.text, rows[i].why ? rows[i].why : ""))
            fail_msg("%s: %s", rows[i].text, why.text);
        assert_null(strstr(why.text, "secret"));
    }
}

/* Two lines, or the file of Amazon's own tools; no sentence has a secret.
 * e2e/bucket shows that they are those. */
TEST(reads_credentials)
{
    static const struct {
        const char *text;
        bool is_good;
    } rows[] = {
        {"AKIA\ns3cr3t/+\n", true},
        {"# mine\n\nAKIA\r\n  s3cr3t  ", true},
        {"[default]\naws_access_key_id = AKIA\n"
         "aws_secret_access_key=s3cr3t==\nregion = eu-west-1\n",
         true},
        {"[default]\nregion = eu\naws_secret_access_key = s3cr3t\n"
         "AWS_ACCESS_KEY_ID=AKIA",
         true},
        {"", false},
        {"AKIA\n", false},
        {"aws_secret_access_key = s3cr3t\n", false},
        {"aws_access_key_id = A B\naws_secret_access_key = s3cr3t\n", false},
        {"AKIA\ns3cr3t\x01\n", false},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        const char *path = write_credentials(state, rows[i].text, 0600);
        struct problem why = {""};

        assert_int_equal(try_bucket("s3://tidings?region=eu", path, &why),
                         rows[i].is_good ? STATUS_OK : STATUS_INVALID);
        if (!rows[i].is_good)
            assert_non_null(strstr(why.text, "no access key ID and secret"));
        assert_null(strstr(why.text, "s3cr3t"));
    }
}

TEST(refuses_credentials_that_others_can_read)
{
    const char *path = write_credentials(state, "AKIA\ns3cr3t\n", 0640);
    struct problem why = {""};

    assert_int_equal(try_bucket("s3://tidings?region=eu", path, &why),
                     STATUS_IO);
    assert_non_null(strstr(why.text, "(mode 0640): chmod 600"));
}
