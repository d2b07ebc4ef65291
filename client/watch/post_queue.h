/*
 * post_queue.h - turns changes into posts: gathers them, seals them in the
 * database, posts until the broker has answered.
 */
#ifndef CLIENT_WATCH_POST_QUEUE_H
#define CLIENT_WATCH_POST_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/tidings.h"
#include "client/watch/watch_db.h"

/* Limits of a post, which also goes out when it is a second old. An entry is
 * some 300 bytes, so a post is about 1.5 MB, and 5,000 files cost one wait for
 * the disks of both sides. */
#define POST_QUEUE_ENTRIES_MAX 5000
#define POST_QUEUE_BYTES_MAX   (4 * 1024 * 1024)
#define POST_QUEUE_AGE_MS      1000

struct post_queue {
    struct td_client *client;
    struct watch_db *database;
    const char *set_url;
    FILE *to; /* the post being built; NULL: none */
    char *body;
    size_t size;
    size_t n_entries;
    size_t n_deleted;
    size_t n_entries_max;
    int64_t begun_ms;
    bool will_retry; /* else an unreachable broker is a failure */
    struct problem *why;

    /* Waits, and reads events meanwhile; true: the watch has to stop. */
    bool (*wait)(unsigned ms, void *waiter);
    void *waiter;
    void (*on_posted)(const struct td_receipt *receipt, size_t n_entries,
                      void *user);
    void (*on_warning)(const char *text, void *user);
    void *user;
};

/* Adds the state `mark` of the file `path`, called `loc`, to the post being
 * built. `change` is "created", "updated" or "deleted" (mark NULL); `type` its
 * media type, or NULL. False: `why` says why. */
bool post_queue_add(struct post_queue *queue, const char *change,
                    const char *path, const char *loc,
                    const struct file_stamp *mark, const char *type);

bool post_queue_is_empty(const struct post_queue *queue);

/* True if it is time to post. */
bool post_queue_is_due(const struct post_queue *queue);

/* Forgets the post being built. */
void post_queue_undo(struct post_queue *queue);

/* Seals the post being built. */
bool post_queue_seal(struct post_queue *queue);

/* Posts the sealed post, if there is one; repeats while the broker is
 * unreachable. STATUS_AGAIN: the broker kept nothing, or lost all: compare all
 * files with the database again. STATUS_STOPPED: the next start posts it. Else
 * `why` says why; STATUS_INVALID: the set's URL is not one. */
enum status post_queue_deliver(struct post_queue *queue);

#endif
