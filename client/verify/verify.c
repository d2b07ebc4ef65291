/*
 * verify.c - fills in the proof: a list that holds, or a break.
 */
#include "client/verify/verify.h"

void
verify_holds(struct verify *v, const char *where)
{
    const struct list_chain *chain = &v->chain;
    struct td_proof *proof = v->proof;

    proof->n_lists++;
    proof->first = chain->last > chain->after ? chain->after + 1 : 0;
    proof->last = chain->last;
    proof->is_from_start = chain->after == 0;
    position_write(proof->position, chain->epoch, chain->last);
    strcpy(proof->digest, digest_text(&chain->digest).text);
    strcpy(proof->from, datetime_text(chain->from_us).text);
    strcpy(proof->until, datetime_text(chain->last_us).text);
    if (v->on_list)
        v->on_list(where, proof, v->user);
}

enum status
verify_breaks(struct verify *v, const char *where, uint64_t at,
              const struct problem *why)
{
    snprintf(v->proof->broken_in, sizeof(v->proof->broken_in), "%s", where);
    v->proof->broken_at = at;
    return client_fail(v->client, STATUS_DIFFERENT, "%.400s: %s", where,
                       why->text);
}
