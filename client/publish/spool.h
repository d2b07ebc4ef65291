/*
 * spool.h - changes that wait for a post, in their order; and their post, fixed
 * before it is sent.
 *
 *     spool_add ... --> spool_seal --> (post it) --> spool_posted
 *                          |  ^             \-----> spool_drop: of one entry
 *                          |  +--- crash, or no answer: the same post again
 *                          +--> spool_unseal: in smaller posts
 *
 * The argument why a crash neither loses nor doubles a change:
 *
 *   - spool_add returns when the changes are on disk, and with them the note:
 *     a text of the caller's, such as how far it has read its input.
 *   - spool_seal stores the changes of the next post, and its key; only then is
 *     it sent. Until an answer is recorded, the publisher sends the same bytes
 *     with the same key, which the broker keeps once. It begins no other post
 *     meanwhile: so their order stays.
 *   - spool_posted deletes post and changes in one transaction. A crash before
 *     it repeats the post, a crash behind it has nothing to do.
 *
 * A file of SQLite, or a database in memory. One process at a time, by SQLite's
 * own lock.
 *
 * Why watch_db.h and harvest_db.h have tables of their own for their posts:
 * they seal in the same three steps, and share the argument, but the post is in
 * one transaction with what it is about, and that differs.
 *
 *   - spool: the last change; the body is made of the rows. An answer deletes
 *     them and moves `durable`. A refusal drops one change, or makes the post
 *     smaller.
 *   - watch: the body, and the states of its files. An answer makes them those
 *     of the files, or, from a new log, forgets all. A refusal drops the post.
 *   - harvest: the body, the rows and the source's position, and the set's
 *     position and the time, which find a post whose key has lapsed. An answer
 *     deletes the post, and moves the set's position if nobody else posted. A
 *     refusal ends the harvest.
 *
 * In common are one INSERT, one SELECT and one DELETE.
 */
#pragma once

#include "base/db.h"
#include "client/publish/publish.h"

/* Longest note, with its NUL. */
#define SPOOL_NOTE_SIZE 1024

/* For others only to read. */
struct spool {
    struct db db;
    uint64_t max_bytes;
    uint64_t last;              /* number of the last added change; 0: none */
    uint64_t durable;           /* number of the last posted change; 0: none */
    size_t n_changes;           /* that wait, the post under way included */
    uint64_t n_bytes;           /* theirs */
    char note[SPOOL_NOTE_SIZE]; /* the last one; "" at first */
};

/* Opens the file `path`, or makes it; NULL: in memory. It holds at most
 * `max_bytes` of changes, for the set `set_url` and no other. STATUS_IO: it is
 * another set's, no spool, in use, or the disk refuses; STATUS_MEMORY. Close
 * its `db` in any case. */
enum status spool_open(struct spool *spool, const char *path,
                       const char *set_url, uint64_t max_bytes,
                       struct problem *why);

/* Adds `n` changes, and replaces the note (NULL: keeps it), in one transaction.
 * STATUS_UNREACHABLE: they have no room; STATUS_INVALID: the note is too long;
 * STATUS_IO. Nothing was added then. */
enum status spool_add(struct spool *spool, const struct slice *changes,
                      size_t n, const char *note, struct problem *why);

/* A post: a JSON array of changes. */
struct spool_post {
    char key[POST_KEY_SIZE];
    uint64_t last;    /* number of its last change */
    size_t n;         /* changes; 0: there is nothing to post */
    uint64_t n_bytes; /* of the changes alone */
    struct buf body;  /* the caller frees it */
};

/* The post that is sealed or, if none is, a new one of the oldest changes, of
 * about so many and so many bytes (at least one). STATUS_IO, STATUS_MEMORY. */
enum status spool_seal(struct spool *spool, size_t max_changes,
                       size_t max_bytes, struct spool_post *post,
                       struct problem *why);

/* Records that the broker has the post on its disk. */
enum status spool_posted(struct spool *spool, const struct spool_post *post,
                         struct problem *why);

struct spool_entry {
    uint64_t number;
    char *text; /* terminated, to be freed */
    size_t size;
};

/* Change `n` (from 1) of the sealed post. */
enum status spool_change(struct spool *spool, const struct spool_post *post,
                         uint64_t n, struct spool_entry *entry,
                         struct problem *why);

/* Deletes that change, which was refused for good, and unseals the others for
 * another post with another key. The broker kept nothing of the post. */
enum status spool_drop(struct spool *spool, const struct spool_entry *entry,
                       struct problem *why);

/* The post is refused as a whole, and nothing of it was kept. */
enum status spool_unseal(struct spool *spool, struct problem *why);
