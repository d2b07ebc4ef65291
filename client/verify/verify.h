/*
 * verify.h - td_verify, as its parts see it. They bring lists from a directory
 * (verify_directory.c) or a broker (verify_web.c), oldest first, and each one
 * extends the chain (list_proof.h). With keys (td_trust) a checkpoint then says
 * whether these entries were signed (verify_signed.c).
 */
#pragma once

#include <limits.h>

#include "client/lib/client.h"
#include "proto/input/list_proof.h"
#include "proto/tlog/note.h"

struct verify {
    struct td_client *client;
    struct list_chain chain;
    struct td_proof *proof;
    void (*on_list)(const char *list, const struct td_proof *proof, void *user);
    void *user;

    /* With keys, else NULL: notes the leaves. */
    const struct list_proof_events *events;
    int leaves_fd; /* the hashes of leaves, each at its place; -1: none yet */
    char checkpoint_url[LIST_HREF_MAX + 1]; /* "": of files */
    char checkpoint_name[PATH_MAX];
    uint64_t signed_size;
    char loc[LIST_HREF_MAX + 1]; /* of a proof's entry */
};

/* The list at `where` has extended the chain: fills the proof in, reports it.
 */
void verify_holds(struct verify *v, const char *where);

/* The chain breaks at `where`, after entry `at`: `why` says how.
 * STATUS_DIFFERENT. */
enum status verify_breaks(struct verify *v, const char *where, uint64_t at,
                          const struct problem *why);

enum status verify_files(struct verify *v, const char *dir);

/* Notes the leaf of an entry: an on_entry of list_proof.h. */
enum status verify_leaf(const struct list_entry *entry, void *user,
                        struct problem *why);

/* Fetches the checkpoint at v->checkpoint_url: before the lists, which then
 * have all of its entries; reads that beside the lists of `dir`. The caller
 * frees the body. */
enum status verify_fetch_checkpoint(struct verify *v, struct buf *body);
enum status verify_read_checkpoint(struct verify *v, const char *dir,
                                   struct buf *body);

/* Checks the signatures of a checkpoint, and that the entries of the chain are
 * those that it signs. */
enum status verify_signed(struct verify *v, struct slice bytes);

/* Checks the proof of an entry (tlog-proof), and reports its loc as a list that
 * holds; the one in a file; that of entry `seq`, fetched from the broker. */
enum status verify_proof(struct verify *v, const char *where,
                         struct slice bytes);
enum status verify_proof_file(struct verify *v, const char *path);

/* Judges the evidence of a follower: STATUS_REWOUND, the key has signed two
 * histories. STATUS_NOT_FOUND: it is no evidence. */
enum status verify_evidence(struct verify *v, const char *where,
                            struct slice bytes);
enum status verify_fetch_proof(struct verify *v, uint64_t seq,
                               struct buf *body);
