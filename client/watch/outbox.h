/*
 * outbox.h - changes become posts: gathered, sealed in the ledger, posted until
 * the broker has answered.
 */
#ifndef CLIENT_WATCH_OUTBOX_H
#define CLIENT_WATCH_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/tidings.h"
#include "client/watch/ledger.h"

/* A post has no more; it is also posted when it is a second old. An entry is
 * some 300 bytes, so a post is about 1.5 MB, and 5,000 files cost one wait for
 * the disks of both sides. */
#define OUTBOX_ENTRIES_MAX 5000
#define OUTBOX_BYTES_MAX   (4 * 1024 * 1024)
#define OUTBOX_AGE_MS      1000

struct outbox {
    struct td_client *client;
    struct ledger *ledger;
    const char *set_url;
    const char *base_uri;
    FILE *to; /* the post in the making; NULL: none */
    char *body;
    size_t size;
    size_t n_entries;
    size_t n_deleted;
    size_t n_entries_max;
    int64_t begun_ms;
    bool will_retry; /* else a broker that is away is a failure */
    struct trouble *trouble;

    /* Waits, hearing what changes; true: to be stopped. */
    bool (*wait)(unsigned ms, void *waiter);
    void *waiter;
    void (*on_posted)(const struct td_receipt *receipt, size_t n_entries,
                      void *user);
    void (*on_warning)(const char *text, void *user);
    void *user;
};

enum outbox_result {
    OUTBOX_DONE,
    OUTBOX_AGAIN,   /* nothing was kept, or all that was is lost: compare all
                       files with the ledger again */
    OUTBOX_STOPPED, /* what is sealed is posted at the next start */
    OUTBOX_FAILED,  /* the trouble says why */
    OUTBOX_USAGE    /* the set's URL is none */
};

/* Adds to the post in the making that the file `path`, called `loc`, is as
 * `mark` says. `change` is "created", "updated" or "deleted" (mark NULL);
 * `type` its media type, or NULL. False: the trouble says why. */
bool outbox_add(struct outbox *outbox, const char *change, const char *path,
                const char *loc, const struct filemark *mark, const char *type);

bool outbox_is_empty(const struct outbox *outbox);

/* Is it time to post what there is? */
bool outbox_is_due(const struct outbox *outbox);

/* Forgets the post in the making. */
void outbox_undo(struct outbox *outbox);

/* Seals the post in the making. */
bool outbox_seal(struct outbox *outbox);

/* Posts what is sealed, if anything is; while the broker is away, again and
 * again. */
enum outbox_result outbox_deliver(struct outbox *outbox);

#endif
