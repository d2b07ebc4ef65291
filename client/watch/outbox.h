/*
 * outbox.h - turns changes into posts: gathers them, seals them in the ledger,
 * posts until the broker has answered.
 */
#ifndef CLIENT_WATCH_OUTBOX_H
#define CLIENT_WATCH_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/tidings.h"
#include "client/watch/ledger.h"

/* Limits of a post, which also goes out when it is a second old. An entry is
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

enum outbox_result {
    OUTBOX_DONE,
    OUTBOX_AGAIN,   /* the broker kept nothing, or lost all: compare all files
                       with the ledger again */
    OUTBOX_STOPPED, /* the next start posts the sealed post */
    OUTBOX_FAILED,  /* `why` says why */
    OUTBOX_USAGE    /* the set's URL is not one */
};

/* Adds the state `mark` of the file `path`, called `loc`, to the post being
 * built. `change` is "created", "updated" or "deleted" (mark NULL); `type` its
 * media type, or NULL. False: `why` says why. */
bool outbox_add(struct outbox *outbox, const char *change, const char *path,
                const char *loc, const struct filemark *mark, const char *type);

bool outbox_is_empty(const struct outbox *outbox);

/* True if it is time to post. */
bool outbox_is_due(const struct outbox *outbox);

/* Forgets the post being built. */
void outbox_undo(struct outbox *outbox);

/* Seals the post being built. */
bool outbox_seal(struct outbox *outbox);

/* Posts the sealed post, if there is one; repeats while the broker is
 * unreachable. */
enum outbox_result outbox_deliver(struct outbox *outbox);

#endif
