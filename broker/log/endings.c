#include "broker/log/endings.h"

#include "broker/log/set.h"

/* The last number that was given, to a list or a generation. */
static uint64_t
last_number(const struct head *head)
{
    uint64_t last = head->list;

    for (int kind = 0; kind < GENERATION_KINDS; kind++)
        if (head->generations[kind].last > last)
            last = head->generations[kind].last;
    return last;
}

/* The set ends with this commit. Its open list ends without becoming a closed
 * one; its number was told, and is not given again. */
enum status
endings_removal(struct committer *c, struct post *post, int64_t now_us)
{
    struct head *draft = &post->set->draft;
    struct engine_removal *removals =
        ONE_MORE(c->removals, &c->removals_capacity, c->commit.n_removals);

    if (!removals)
        return STATUS_MEMORY;
    c->removals = removals;
    removals[c->commit.n_removals++] = (struct engine_removal){
        .set = post->set->id,
        .name = post->set->name,
        .first = draft->first_list,
        .last = draft->list - 1,
        .next_list = last_number(draft) + 1,
        .removed_us = now_us,
        .due_us = now_us + post->grace_us,
    };
    draft->exists = false;
    draft->is_removed = true;
    draft->changed_us = now_us;
    return committer_note(
        c, &(struct log_fact){.kind = FACT_REMOVED, .set = post->set});
}

/* The set's history begins later from this commit on, for everybody at once. */
enum status
endings_retirement(struct committer *c, struct post *post, int64_t now_us)
{
    struct head *draft = &post->set->draft;
    uint64_t first = draft->first_list;
    struct engine_retirement *retirements = ONE_MORE(
        c->retirements, &c->retirements_capacity, c->commit.n_retirements);

    if (!retirements)
        return STATUS_MEMORY;
    c->retirements = retirements;
    if (post->list <= draft->first_list || post->list > draft->list)
        return STATUS_OK; /* somebody else was faster */
    draft->file_bytes -= post->file_bytes < draft->file_bytes
                             ? post->file_bytes
                             : draft->file_bytes;
    retirements[c->commit.n_retirements++] = (struct engine_retirement){
        .set = post->set->id,
        .name = post->set->name,
        .first = first,
        .last = post->list - 1,
        .earliest = post->after,
        .file_bytes = draft->file_bytes,
        .due_us = now_us + post->grace_us,
    };
    draft->first_list = post->list;
    draft->earliest = post->after;
    return committer_note(c, &(struct log_fact){.kind = FACT_RETIRED,
                                                .set = post->set,
                                                .list = first});
}

enum status
endings_purge(struct committer *c, struct post *post)
{
    struct engine_purge *purges =
        ONE_MORE(c->purges, &c->purges_capacity, c->commit.n_purges);

    if (!purges)
        return STATUS_MEMORY;
    c->purges = purges;
    purges[c->commit.n_purges++] =
        (struct engine_purge){post->trash, post->list};
    return STATUS_OK;
}
