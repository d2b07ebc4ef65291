/*
 * closed_list.c - proves a closed Change List.
 */
#include "client/history/closed_list.h"

#include "base/array.h"
#include "base/gunzip.h"
#include "proto/input/list_proof.h"

static enum status
on_bytes(struct slice bytes, void *user, struct problem *why)
{
    struct closed_list *list = user;

    if (atomic_load_explicit(list->is_dropped, memory_order_relaxed))
        return STATUS_STOPPED;
    buf_add_slice(&list->text, bytes);
    return list->text.failed ? problem_memory(why) : STATUS_OK;
}

static enum status
on_head(const struct list_head *head, void *user, struct problem *why)
{
    struct closed_list *list = user;

    list->covers = head->covers;
    return head->covers.until_us == DATETIME_NONE
               ? problem(why, STATUS_UNSUPPORTED, "it is no closed Change List")
               : STATUS_OK;
}

static enum status
on_entry(const struct list_entry *entry, void *user, struct problem *why)
{
    struct closed_list *list = user;
    struct closed_piece *piece =
        list->n_pieces ? &list->pieces[list->n_pieces - 1] : NULL;

    if (!piece || piece->size >= CLOSED_LIST_PIECE_BYTES ||
        piece->last - piece->after >= CLOSED_LIST_PIECE_ENTRIES) {
        if (!ONE_MORE(list->pieces, &list->capacity, list->n_pieces))
            return problem_memory(why);
        piece = &list->pieces[list->n_pieces++];
        *piece = (struct closed_piece){.at = (size_t)entry->at,
                                       .after = entry->view->seq - 1};
    }
    piece->size += entry->text.size;
    piece->last = entry->view->seq;
    piece->digest = *entry->digest;
    return atomic_load_explicit(list->is_dropped, memory_order_relaxed)
               ? STATUS_STOPPED
               : STATUS_OK;
}

enum status
closed_list_read(struct closed_list *list, const char *url, struct slice body,
                 const struct coverage *known, struct problem *why)
{
    static const struct list_proof_events events = {on_head, on_entry};
    struct list_chain chain = {.epoch = ""};
    struct gunzip *gunzip = gunzip_new(CLOSED_LIST_MAX, true, on_bytes, list);
    struct list_proof *proof = NULL;
    enum status rc;

    buf_clear(&list->text);
    list->n_pieces = 0;
    if (!gunzip)
        return problem_memory(why);
    rc = gunzip_all(gunzip, body, why);
    if (!rc)
        rc = gunzip_end(gunzip, why);
    gunzip_free(gunzip);
    if (rc == STATUS_TOO_LARGE)
        return problem(why, STATUS_UNSUPPORTED,
                       "it unpacks to more than %u bytes", CLOSED_LIST_MAX);
    if (rc)
        return rc;
    proof = list_proof_new(&chain, url, &events, list);
    if (!proof)
        return problem_memory(why);
    if (known->has_digest)
        list_proof_expect(proof, known->last, &known->digest, "the follower");
    rc = list_proof_feed(proof, buf_slice(&list->text), why);
    if (!rc)
        rc = list_proof_end(proof, &chain, why);
    list_proof_free(proof);
    return rc;
}
