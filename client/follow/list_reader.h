/*
 * list_reader.h - reads the closed Change Lists of a broker after a place, as
 * batches of changes.
 *
 *     archive --> search for the list that has the place --+
 *                                                          v
 *     the list:  fetch, gzip --> prove --> pieces --> on_batch ... --> on_end
 *     the next:  fetch, gzip --> prove --> waits
 *
 * Worker threads prove the lists, and make changes of their pieces; the thread
 * of the handle hands these over in order. Nothing of a list counts before all
 * of it is proven (proto/input/list_proof.h): so an altered, short or reordered
 * list hands over nothing. It continues the digest of the list before: so each
 * batch is at the position and the digest that a stream would have there.
 *
 * Memory: two lists (LIST_READER_LIST_MAX each), one of them packed, too; and
 * LIST_READER_PIECES pieces as changes.
 */
#pragma once

#include "client/follow/change_batch.h"
#include "client/lib/client.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"

/* Most bytes of a list, packed and unpacked. A broker's list has 50 MiB and one
 * entry at most. */
#define LIST_READER_LIST_MAX (64u * 1024 * 1024)

/* Pieces at work or waiting for their turn: libuv's pool has four threads. */
#define LIST_READER_PIECES 4

struct list_reader;

/* The changes between the last place and `upto`, where the log has `digest`.
 * The callee may exchange the batch with another one, of the same form. False:
 * list_reader_free was called, or is called next. */
typedef bool list_reader_batch_fn(struct change_batch *batch,
                                  const struct position *upto,
                                  const struct digest *digest, void *user);

/* The end. STATUS_OK: all closed lists were read, perhaps none was needed.
 * STATUS_MALFORMED: a list contradicts itself; STATUS_DIFFERENT: it is of
 * another history; STATUS_UNREACHABLE: later perhaps; STATUS_MEMORY. Any other:
 * the lists cannot be read in this way. */
typedef void list_reader_end_fn(const struct problem *why, void *user);

struct list_reader_plan {
    const char *archive;         /* URL of the Change List Archive */
    struct position after;       /* epoch "": unknown */
    const struct digest *digest; /* there; NULL: unknown */
    uint64_t head;               /* the last entry of the log, about */
    const struct filter *filter; /* must stay until the end */
    enum td_form form;
    unsigned silence_s; /* that end a request; 0: fetch.h's default */
};

/* NULL: no memory. It frees itself after on_end. The handle has one of them at a
 * time (client->is_catching_up). */
struct list_reader *list_reader_start(struct td_client *client,
                                      const struct list_reader_plan *plan,
                                      list_reader_batch_fn *on_batch,
                                      list_reader_end_fn *on_end, void *user);

/* Hands over nothing while it is held. `reader`: a struct list_reader. */
void list_reader_hold(void *reader, bool is_held);

/* Waits for workers, which end soon. NULL is allowed; not after on_end. */
void list_reader_free(void *reader);
