/*
 * verify.h - td_verify, as its parts see it. They bring lists from a directory
 * (verify_directory.c) or a broker (verify_web.c), oldest first, and each one
 * extends the chain (list_proof.h).
 */
#pragma once

#include "client/lib/client.h"
#include "proto/input/list_proof.h"

struct verify {
    struct td_client *client;
    struct list_chain chain;
    struct td_proof *proof;
    void (*on_list)(const char *list, const struct td_proof *proof, void *user);
    void *user;
};

/* The list at `where` has extended the chain: fills the proof in, reports it.
 */
void verify_holds(struct verify *v, const char *where);

/* The chain breaks at `where`, after entry `at`: `why` says how.
 * STATUS_DIFFERENT. */
enum status verify_breaks(struct verify *v, const char *where, uint64_t at,
                          const struct problem *why);

enum status verify_files(struct verify *v, const char *dir);
