/*
 * witness.h - a witness of logs that it follows itself (C2SP tlog-witness).
 *
 *     log --POST /add-checkpoint--> known? signed? from the size we have?
 *                                   continued? -- no --> 4xx
 *           its lists -----------> our own root of that size is the same?
 *                                   -- no --> 422, and evidence in DIR
 *                                   -- not read yet --> 503
 *         <----- cosignature ------ kept in DIR, then signed
 *
 * A checkpoint is cosigned only if the tree of all entries that this witness
 * has read in the lists of the set (source_tree.h) has that root. So the
 * operator of the log cannot get a cosignature of a history that its readers do
 * not see.
 *
 * Origins that it knows: HOST/sets/NAME/EPOCH, where a key of a log (td_trust)
 * has that HOST, NAME is the set of an operand, or any set of a source, and
 * EPOCH is that of the lists there.
 *
 *     DIR/witness.key      "# " and our verifier key, and the secret in base64
 *     DIR/witness.db       each log: its last cosigned checkpoint, and how far
 *                          its closed lists were read
 *     DIR/evidence-*       what a log has signed twice (verify_evidence.c)
 *     DIR/lists-*          what it has signed, and its lists do not have
 *
 * One request is judged at a time, so none overtakes another. The state has
 * DIR alone (DB_OWN): no second witness can cosign with it.
 */
#pragma once

#include "client/lib/client.h"
#include "proto/tlog/note.h"

struct witness_options {
    const char *listen; /* HOST:PORT */
    const char *dir;    /* made if it is missing */
    const char *name;   /* of a new key; NULL: as `listen` */
    char *const *urls;  /* sources and sets, NULL at the end */

    /* It listens at that URL, with that verifier key. */
    void (*on_ready)(const char *url, const char *key);
    void (*on_text)(const char *text, void *user); /* a line for the operator */
};

/* Opens a witness in the loop of `client`, which somebody else turns. The
 * witness reads sets by another handle, which has the keys (td_trust); while it
 * reads, for five seconds at most, the loop stands still. The caller closes the
 * witness, even after a failure: `client` has the problem. `options` stays the
 * caller's, until then. */
struct witness;
MUST_CHECK enum status witness_open(struct td_client *client,
                                    struct td_client *reader,
                                    const struct witness_options *options,
                                    struct witness **witness);
void witness_close(struct witness *witness);

/* Runs until td_stop: STATUS_STOPPED. The problem of the client says why it
 * ends before. */
MUST_CHECK enum status witness_run(struct td_client *client,
                                   const struct witness_options *options);
