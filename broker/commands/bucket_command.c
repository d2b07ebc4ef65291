#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "broker/bucket/bucket.h"
#include "broker/commands/command_rows.h"

#define PROBE_BYTES ((size_t)256 << 10)
#define PART_BYTES  ((size_t)5 << 20) /* the least of S3 */

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

/* Stores `size` bytes, of which the first are random. */
static enum status
try_object(struct bucket *bucket, FILE *file, size_t size, struct problem *why)
{
    char key[BUCKET_KEY_SIZE], bytes[64];
    enum status rc;

    if (!file || !random_hex(bytes, sizeof(bytes)) ||
        lseek(fileno(file), 0, SEEK_SET) ||
        file_write(fileno(file), (struct slice){bytes, sizeof(bytes)}) ||
        ftruncate(fileno(file), (off_t)size))
        return problem_errno(why, "cannot write", "a file to send");
    rc = bucket_digest(fileno(file), 0, size, key, why);
    if (!rc)
        rc = bucket_put(bucket, key, fileno(file), size, why);
    if (!rc)
        rc = bucket_get(bucket, key, fileno(file), size, why);
    if (!rc)
        rc = bucket_delete(bucket, key, why);
    if (!rc && bucket_find(bucket, key, NULL, why) != STATUS_NOT_FOUND)
        rc = problem(why, STATUS_DIFFERENT,
                     "the bucket has an object that was deleted: %s", key);
    return rc;
}

static enum exit_code
run_bucket_check(const struct arguments *given)
{
    const struct values *values = given->values;
    struct bucket_options options = {.address = given->operands[0],
                                     .credentials = values->credentials,
                                     .part_bytes = PART_BYTES};
    FILE *file = tmpfile();
    struct problem why = {""};
    struct bucket *bucket = NULL;
    enum status rc = bucket_open(&bucket, &options, &why);

    if (!rc)
        rc = try_object(bucket, file, PROBE_BYTES, &why);
    if (!rc)
        rc = try_object(bucket, file, PART_BYTES + PROBE_BYTES, &why);
    bucket_close(bucket);
    if (file)
        fclose(file);
    if (!rc)
        printf("the bucket stores, returns and deletes objects, also in "
               "parts\n");
    return rc ? command_fail(given, rc, &why) : EXIT_GOOD;
}

const struct command bucket_check_command = {
    .name = "bucket check",
    .operands = "ADDRESS",
    .help = "Tries a bucket of S3: stores an object, reads and deletes it, "
            "then one of 5 MB in two parts.",
    .more = "The address is "
            "s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION. "
            "Without an endpoint it is Amazon's of that region.\n",
    .examples =
        "tidingsd bucket check --s3-credentials /etc/tidings/s3 \\\n"
        "    's3://tidings/archive?endpoint=https://minio.example.org:9000'\n",
    .options = OPTION_ROWS(rows),
    .run = run_bucket_check,
};
