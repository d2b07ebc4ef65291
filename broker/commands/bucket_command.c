#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "broker/bucket/bucket.h"
#include "broker/commands/command_rows.h"
#include "proto/number.h"

#define PROBE_BYTES ((size_t)256 << 10)

struct values {
    char credentials[4096];
};

#define ROW_OF struct values
#include "base/option_rows.h"

static const struct option rows[] = {
    {"s3-credentials", "FILE", TEXT(credentials), NULL,
     "the access key ID and the secret access key, a line each, or "
     "aws_access_key_id = ... and so on; if not given, the environment "
     "variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
     "AWS_SESSION_TOKEN"},
};

/* Makes a file of random bytes, and the key that it has in a bucket. */
static enum status
write_probe(FILE *file, char key[BUCKET_KEY_SIZE], struct problem *why)
{
    char *bytes = memory_new(1, PROBE_BYTES);
    struct slice probe = {bytes, PROBE_BYTES};
    struct digest digest;
    enum status rc = STATUS_OK;

    if (!file || !random_hex(bytes, 64) || file_write(fileno(file), probe))
        rc = problem_errno(why, "cannot write", "a file to send");
    digest_sha256(&digest, probe);
    hex_write(key, digest.bytes, DIGEST_SIZE);
    key[BUCKET_KEY_SIZE - 1] = '\0';
    free(bytes);
    return rc;
}

static enum exit_code
run_bucket_check(const struct arguments *given)
{
    const struct values *values = given->values;
    struct bucket_options options = {.address = given->operands[0],
                                     .credentials = values->credentials};
    FILE *file = tmpfile();
    char key[BUCKET_KEY_SIZE];
    struct problem why = {""};
    struct bucket *bucket = NULL;
    enum status rc = write_probe(file, key, &why);

    if (!rc)
        rc = bucket_open(&bucket, &options, &why);
    if (!rc)
        rc = bucket_put(bucket, key, fileno(file), PROBE_BYTES, &why);
    if (!rc)
        rc = bucket_get(bucket, key, fileno(file), PROBE_BYTES, &why);
    if (!rc)
        rc = bucket_delete(bucket, key, &why);
    if (!rc && bucket_find(bucket, key, &why) != STATUS_NOT_FOUND)
        rc = problem(&why, STATUS_DIFFERENT,
                     "the bucket has an object that was deleted: %s", key);
    bucket_close(bucket);
    if (file)
        fclose(file);
    if (!rc)
        printf("the bucket stores, returns and deletes objects\n");
    return rc ? command_fail(given, rc, &why) : EXIT_GOOD;
}

const struct command bucket_check_command = {
    .name = "bucket check",
    .operands = "ADDRESS",
    .help = "Tries a bucket of S3: stores an object, reads and deletes it.",
    .more = "The address is "
            "s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION. "
            "Without an endpoint it is Amazon's of that region.\n",
    .examples =
        "tidingsd bucket check --s3-credentials /etc/tidings/s3 \\\n"
        "    's3://tidings/archive?endpoint=https://minio.example.org:9000'\n",
    .options = OPTION_ROWS(rows),
    .run = run_bucket_check,
};
