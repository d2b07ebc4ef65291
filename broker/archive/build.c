#include "broker/archive/build.h"

#include <stdlib.h>
#include <string.h>

#include "proto/fragment.h"

enum status
build_begin(struct build *b, const struct build_rules *rules, struct set *set,
            enum generation_kind kind, const struct resources_at *at,
            bool is_archived, struct problem *why)
{
    struct head head;
    enum status rc;

    if (!log_head(set->log, &head)) {
        free(b);
        return problem(why, STATUS_GONE, "the set %s was removed", set->name);
    }
    b->rules = rules;
    b->set = set;
    b->generation = (struct generation){
        .kind = kind,
        .seq = at->seq,
        .at_us = at->seq > 0 ? at->us : head.created_us,
        .n = at->n,
        .is_archived = is_archived,
    };
    b->coverage = (struct coverage){
        .last = at->seq,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .now_us = DATETIME_NONE,
    };
    memcpy(b->coverage.epoch, head.epoch, sizeof(b->coverage.epoch));
    b->has_archive = is_archived || head.generations[kind].n_archived > 0;
    buf_init(&b->text, BUILD_PIECE_BYTES + FRAGMENT_MAX + DOCUMENT_FRAME_MAX);
    rc = generation_begin(&b->writer, set, &b->generation, why);
    if (rc)
        free(b);
    return rc;
}

void
build_abandon(struct build *b)
{
    if (!b)
        return;
    if (b->rules->end)
        b->rules->end(b);
    if (b->writer)
        generation_abandon(b->writer);
    buf_fini(&b->text);
    free(b);
}

/* True if the build began with this state. A damaged state begins anew. */
static bool
is_same(const struct build *b, const struct resources *resources)
{
    const struct resources_at *at = resources_at(resources);

    return at->seq == b->generation.seq && at->n == b->generation.n;
}

enum status
build_step(struct build *b, struct resources *resources, bool *is_done,
           struct problem *why)
{
    enum status rc;

    *is_done = false;
    if (is_same(b, resources))
        rc = b->rules->step(b, resources, is_done, why);
    else
        rc = problem(why, STATUS_IO, "the state of the set has begun anew");
    if (!rc && *is_done) {
        rc = generation_finish(b->writer, why);
        b->writer = NULL; /* freed either way */
    }
    if (rc || *is_done)
        build_abandon(b);
    return rc;
}

/* Writing */

void
build_link_up(const struct build *b, struct build_links *l)
{
    l->up = link_to(registry_public_url(b->set->registry), LINK_CAPABILITYLIST,
                    b->set->name, NULL, 0);
    l->links[0] = (struct document_link){"up", link_slice(&l->up), NULL, NULL};
    l->n = 1;
}

void
build_link_index(const struct build *b, struct build_links *l)
{
    l->index =
        link_to_generation(registry_public_url(b->set->registry), b->set->name,
                           b->generation.kind, b->generation.number);
    l->links[l->n++] =
        (struct document_link){"index", link_slice(&l->index), NULL, NULL};
}

void
build_link_archives(const struct build *b, struct build_links *l)
{
    if (!b->has_archive)
        return;
    l->archives = link_to_generations(registry_public_url(b->set->registry),
                                      b->set->name, b->generation.kind);
    l->links[l->n++] = (struct document_link){
        "archives", link_slice(&l->archives), NULL, NULL};
}

struct document_head
build_head(const struct build *b, enum document_root root,
           enum capability capability, const struct build_links *links)
{
    return (struct document_head){
        .root = root,
        .capability = capability,
        .links = links->links,
        .n_links = links->n,
        .at_us = b->generation.at_us,
        .from_us = DATETIME_NONE,
        .until_us = DATETIME_NONE,
        .coverage = &b->coverage,
    };
}

enum status
build_flush(struct build *b, size_t least, struct problem *why)
{
    enum status rc;

    if (b->text.failed)
        return problem_memory(why);
    if (b->text.size < least)
        return STATUS_OK;
    if (atomic_load_explicit(log_ending(registry_log(b->set->registry)),
                             memory_order_relaxed))
        return problem(why, STATUS_STOPPED, "the broker is ending");
    rc = generation_add(b->writer, buf_slice(&b->text), why);
    buf_clear(&b->text);
    return rc;
}
