/*
 * bucket.h - objects in a bucket of S3, MinIO, Ceph and the like.
 *
 *     s3://BUCKET/PREFIX?endpoint=https://host:port&region=R
 *
 * Credentials come from a file (two lines, or aws_access_key_id = ... and so
 * on), or from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
 * The file is read for each request, so new ones need no restart. No text of
 * these functions has a byte of them.
 *
 * The key of an object is its SHA-256 in hexadecimal, so an object never
 * changes, and one that is there already is as good as a new one. The ETag is
 * no digest, and is not looked at. A large object goes up in parts, each with
 * its own SHA-256, and each is repeated alone. The server joins them if their
 * ETags are those that it gave: a part that another one has replaced is named.
 *
 * New objects go up with If-None-Match. A server that does not know it (501)
 * gets nothing, unless may_overwrite: then HEAD asks first, and an object that
 * another writer stores in between is written again, with the same bytes.
 *
 * A request ends when no byte has moved for some seconds, or after a time in
 * proportion to its size. It is repeated, with growing pauses, if the server is
 * busy or the connection breaks, and not after silence. If an answer 429 or 503
 * asks for a pause (Retry-After), the bucket is not asked before its end. Plain
 * HTTP goes to this machine alone.
 *
 * Each function blocks; a bucket belongs to one thread at a time.
 *
 * Errors: STATUS_UNREACHABLE: no answer, or not now; STATUS_REFUSED: the server
 * says no; STATUS_NOT_FOUND: no such object; STATUS_DIFFERENT: it has other
 * bytes; STATUS_STOPPED: is_stopped; STATUS_IO, STATUS_INVALID: of files and
 * settings here. `why` has the server's words and the number of the request.
 */
#pragma once

#include "proto/resourcesync/digest.h"

/* 64 digits and a NUL. */
#define BUCKET_KEY_SIZE 65

/* In front of the key of content: vault.h. */
#define BUCKET_CONTENT "content/"

/* Behind it, while it is being deleted. */
#define BUCKET_GOING ".going"

struct bucket;

struct bucket_options {
    const char *address;
    const char *credentials; /* a file; "": the environment; lent */
    int64_t stall_us;        /* a silent request ends then; 0: 10 seconds */
    uint64_t part_bytes;     /* more go up in parts of so many */
    bool may_overwrite;      /* also without If-None-Match */

    /* Asked each second: true ends a request. NULL: never. */
    bool (*is_stopped)(void *user);
    void *user;
};

/* Checks the settings, and asks no server. */
MUST_CHECK enum status bucket_open(struct bucket **bucket,
                                   const struct bucket_options *options,
                                   struct problem *why);
void bucket_close(struct bucket *bucket); /* NULL is allowed */

/* Writes the key of some bytes of a file. */
MUST_CHECK enum status bucket_digest(int fd, uint64_t at, uint64_t size,
                                     char key[BUCKET_KEY_SIZE],
                                     struct problem *why);

/* Places the `size` bytes of a file under their digest, which the server checks
 * (they are signed), and asks whether they are there. Content is placed anew if
 * it is there. STATUS_UNREACHABLE: also while it is being deleted. */
MUST_CHECK enum status bucket_put(struct bucket *bucket, const char *key,
                                  int fd, uint64_t size, struct problem *why);

/* Writes the object to a file, and checks its size and digest. */
MUST_CHECK enum status bucket_get(struct bucket *bucket, const char *key,
                                  int fd, uint64_t size, struct problem *why);

/* Tries the bucket with an object of `size` bytes, 32 at least: stores, finds,
 * reads and deletes it. STATUS_CONFLICT: all but the last. It is the same one
 * for the same `seed`, so that the next try deletes what a kill left. `fd`: a
 * file of the caller's that may be written anew. */
MUST_CHECK enum status bucket_try(struct bucket *bucket, const char *seed,
                                  int fd, size_t size, struct problem *why);

/* Asks whether it is there, and since when (NULL: never mind), by the clock of
 * the bucket: STATUS_OK, STATUS_NOT_FOUND. */
MUST_CHECK enum status bucket_find(struct bucket *bucket, const char *key,
                                   int64_t *at_us, struct problem *why);

/* Writes an empty object. */
MUST_CHECK enum status bucket_mark(struct bucket *bucket, const char *name,
                                   struct problem *why);

/* STATUS_OK also if there is none. A deletion of content is not repeated:
 * a repetition could hit what another broker has placed meanwhile. */
MUST_CHECK enum status bucket_delete(struct bucket *bucket, const char *key,
                                     struct problem *why);
