/*
 * log_walk.h - the entries of a set, one after the other, as the log keeps
 * them: in files of closed lists, then in rows of tidings.db.
 *
 * The walk proves them (proto/input/list_proof.h). Behind damage it goes
 * on at the next place whose digest is stored.
 */
#pragma once

#include "broker/check/inspection.h"
#include "proto/input/list_proof.h"

/* Another part of the data says what the log has at `seq`. */
struct log_claim {
    uint64_t seq;
    bool has_digest, has_us;
    struct digest digest;
    int64_t us;
    enum finding_kind kind;
    char path[INSPECTION_PATH];
    char what[80]; /* "its entry 7" */
};

/* Receives each entry that the walk can read, in order. */
typedef void log_walk_fn(struct slice fragment,
                         const struct fragment_view *view, void *user);

struct log_walk {
    struct inspection *in;
    const struct inspected_set *set;
    struct db *db;        /* tidings.db */
    struct list_chain at; /* up to the entry before the next one */
    bool is_broken;       /* some entries could not be read */
    struct log_claim *claims;
    size_t n_claims, claims_capacity;
    log_walk_fn *on_entry; /* or NULL */
    void *user;
};

/* Adds a claim, to be filled in; NULL: no memory. */
struct log_claim *log_walk_claim(struct log_walk *walk);

/* Walks all retained entries. */
void log_walk_run(struct log_walk *walk);

void log_walk_fini(struct log_walk *walk);
