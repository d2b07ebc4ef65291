#include "broker/log/switching.h"

#include "broker/log/set.h"

enum status
switching_generation(struct committer *c, struct post *post, int64_t now_us)
{
    const struct generation *next = &post->generation;
    struct generations *now = &post->set->draft.generations[next->kind];
    struct log_fact fact = {.kind = FACT_GENERATION,
                            .set = post->set,
                            .is_first = now->current.number == 0,
                            .generation = *next};
    struct engine_generation *generations = ONE_MORE(
        c->generations, &c->generations_capacity, c->commit.n_generations);

    if (!generations)
        return STATUS_MEMORY;
    c->generations = generations;
    generations[c->commit.n_generations++] =
        (struct engine_generation){.set = post->set->id,
                                   .name = post->set->name,
                                   .generation = *next,
                                   .due_us = now_us + post->grace_us};
    if (next->is_archived && now->n_archived++ == 0)
        now->first_archived = next->number;
    now->current = *next;
    now->last = next->number;
    fact.n_archived = now->n_archived;
    fact.first_archived = now->first_archived;
    return committer_note(c, &fact);
}

/* `list` is an archived one of the kind, the oldest that stays, with
 * `n_archived`. */
enum status
switching_unarchive(struct committer *c, struct post *post, int64_t now_us)
{
    const enum generation_kind kind = post->generation.kind;
    struct generations *now = &post->set->draft.generations[kind];
    struct engine_unarchived *unarchived = ONE_MORE(
        c->unarchived, &c->unarchived_capacity, c->commit.n_unarchived);

    if (!unarchived)
        return STATUS_MEMORY;
    c->unarchived = unarchived;
    unarchived[c->commit.n_unarchived++] = (struct engine_unarchived){
        post->set->id, kind, post->list, now_us + post->grace_us};
    now->n_archived -= post->n_unarchived;
    now->first_archived = post->list;
    return committer_note(c,
                          &(struct log_fact){
                              .kind = FACT_UNARCHIVED,
                              .set = post->set,
                              .generation = {.kind = kind, .number = now->last},
                              .n_archived = now->n_archived,
                              .first_archived = now->first_archived,
                          });
}

enum status
switching_swept(struct committer *c, struct post *post)
{
    uint64_t *swept = ONE_MORE(c->swept, &c->swept_capacity, c->commit.n_swept);

    if (!swept)
        return STATUS_MEMORY;
    c->swept = swept;
    swept[c->commit.n_swept++] = post->due;
    return STATUS_OK;
}
