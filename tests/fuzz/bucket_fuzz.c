/*
 * bucket_fuzz.c - what a bucket answers to the requests of an upload, of a
 * question and of a download.
 *
 * The answers stand one behind the other, with a byte 0xff between them:
 *
 *     STATUS ETAG LF LAST-MODIFIED LF BODY     STATUS: a byte, statuses[]
 *
 * Behind the last one every call fails. The calls are doubles.
 */
#include "broker/bucket/bucket.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/calls/blocking_call.h"
#include "tests/fuzz/fuzz.h"

#define PART   16
#define OBJECT "The bytes of an object, of three parts."

static const unsigned statuses[] = {0,   200, 204, 206, 301, 304, 400,
                                    403, 404, 409, 412, 429, 500, 503};

static struct slice answers;
static struct call call;
static struct slice body;
static unsigned n_calls;

/* Doubles */

/* Weak: in fuzz_replay the clock is that of connection_fuzz.c, and fuzz_bucket
 * has the pauses of clock.c, in which nobody sleeps. */
__attribute__((weak)) int64_t
clock_now_us(void)
{
    return 0;
}

__attribute__((weak)) int64_t
backoff_pause(const struct backoff *b, unsigned failures, uint32_t random)
{
    (void)b;
    (void)failures;
    (void)random;
    return 0;
}

int
usleep(useconds_t us)
{
    (void)us;
    return 0;
}

enum status
blocking_open(struct blocking **b, const struct blocking_options *options,
              struct problem *why)
{
    (void)options;
    (void)why;
    *b = NULL;
    return STATUS_OK;
}

void
blocking_close(struct blocking *b)
{
    FUZZ_ASSERT(!b);
}

/* A caller refuses a URL and headers with such bytes: then a bucket could keep
 * the broker from all requests. */
static void
check_line(const char *text)
{
    for (; *text; text++)
        FUZZ_ASSERT(*text >= ' ' && *text <= '~');
}

const struct call *
blocking_begin(struct blocking *b, const struct call *wish)
{
    unsigned kind;

    (void)b;
    FUZZ_ASSERT(++n_calls < 100);
    check_line(wish->url);
    FUZZ_ASSERT(!strchr(wish->url, ' '));
    for (size_t i = 0; wish->headers[i]; i++)
        check_line(wish->headers[i]);
    body = slice_take(&answers, '\xff');
    kind = body.size > 0 ? (unsigned char)body.data[0] : 0U;
    slice_skip(&body, body.size > 0);
    call = (struct call){.status = statuses[kind % N_ELEMENTS(statuses)],
                         .why = "no answer"};
    call.failure = call.status ? CALL_ANSWERED : CALL_BROKEN;
    call.etag = slice_take(&body, '\n');
    call.last_modified = slice_take(&body, '\n');
    if (body.size > wish->max_taken && call.status == 200 &&
        wish->method == CALL_GET) {
        body.size = (size_t)wish->max_taken;
        call.is_cut = true;
    }
    call.answer = body;
    return &call;
}

const struct call *
blocking_run(struct blocking *b, const struct call *wish, struct buf *answer)
{
    (void)blocking_begin(b, wish);
    if (body.size < answer->max)
        buf_add_slice(answer, body);
    return &call;
}

bool
blocking_next(struct blocking *b, struct slice *piece)
{
    (void)b;
    if (call.status != 200 || body.size == 0)
        return false;
    call.answer = (struct slice){NULL, 0};
    *piece = fuzz_take(&body, 7);
    return true;
}

/* No answer makes an upload without an end, a request that cannot be sent, or
 * an object of other bytes; what the server says can be quoted. */
FUZZ_TARGET(bucket, bytes)
{
    const struct bucket_options options = {
        .address = "s3://b/a?endpoint=http://127.0.0.1:9",
        .credentials = "",
        .part_bytes = PART};
    char key[BUCKET_KEY_SIZE], found[BUCKET_KEY_SIZE];
    char content[sizeof(BUCKET_CONTENT) + BUCKET_KEY_SIZE];
    size_t size = sizeof(OBJECT) - 1;
    int fd = memfd_create("object", MFD_CLOEXEC);
    struct problem why = {""};
    struct bucket *bucket;
    int64_t us = 0;
    enum status rc;

    setenv("AWS_ACCESS_KEY_ID", "AKIA", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t", 1);
    FUZZ_ASSERT(fd >= 0 && write(fd, OBJECT, size) == (ssize_t)size);
    FUZZ_ASSERT(!bucket_digest(fd, 0, size, key, &why));
    snprintf(content, sizeof(content), BUCKET_CONTENT "%s", key);
    FUZZ_ASSERT(!bucket_open(&bucket, &options, &why));
    answers = bytes;
    n_calls = 0;
    while (answers.size > 0) {
        rc = bucket_put(bucket, answers.size & 1 ? key : content, fd, size,
                        &why);
        if (rc)
            fuzz_check_problem(&why);
        rc = bucket_find(bucket, key, &us, &why);
        FUZZ_ASSERT(us >= DATETIME_FIRST);
        rc = bucket_get(bucket, key, fd, size, &why);
        if (rc)
            fuzz_check_problem(&why);
        else
            FUZZ_ASSERT(!bucket_digest(fd, 0, size, found, &why) &&
                        !strcmp(found, key));
        FUZZ_ASSERT(!ftruncate(fd, 0) &&
                    pwrite(fd, OBJECT, size, 0) == (ssize_t)size);
        n_calls = 0;
    }
    bucket_close(bucket);
    close(fd);
}
