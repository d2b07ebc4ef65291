#include "base/random.h"
#include "broker/bucket/bucket.h"
#include "broker/commands/command_rows.h"

#define PROBE_BYTES ((size_t)256 << 10)
#define PART_BYTES  ((size_t)5 << 20) /* the least of S3 */

struct values {
    char credentials[4096];
    bool may_overwrite;
};

#define ROW_OF struct values
#include "base/option_rows.h"

static const struct option rows[] = {
    {"s3-credentials", "FILE", TEXT(credentials), NULL,
     "the access key ID and the secret access key, a line each, or "
     "aws_access_key_id = ... and so on; if not given, the environment "
     "variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
     "AWS_SESSION_TOKEN"},
    {"bucket-overwrite", NULL, FLAG(may_overwrite), "no",
     "also take a bucket that does not know If-None-Match, as the broker does "
     "with this option"},
};

static enum exit_code
run_bucket_check(const struct arguments *given)
{
    const struct values *values = given->values;
    struct bucket_options options = {.address = given->operands[0],
                                     .credentials = values->credentials,
                                     .part_bytes = PART_BYTES,
                                     .may_overwrite = values->may_overwrite};
    const size_t sizes[] = {PROBE_BYTES, PART_BYTES + PROBE_BYTES};
    struct problem why = {""};
    struct bucket *bucket = NULL;
    char seed[64];
    enum status rc = bucket_open(&bucket, &options, &why);
    FILE *file = rc ? NULL : tmpfile();

    if (!rc && !file)
        rc = problem_errno(&why, "cannot make a temporary file in", P_tmpdir);
    if (!rc && !random_hex(seed, sizeof(seed)))
        rc = problem_errno(&why, "no random numbers", "for an object");
    for (size_t i = 0; !rc && i < N_ELEMENTS(sizes); i++)
        rc = bucket_try(bucket, seed, fileno(file), sizes[i], &why);
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
