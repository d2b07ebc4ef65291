/*
 * model.h - what a set's resources are: its log folded in memory, the plain
 * way; a state (broker/state/resources.h) is compared with it.
 *
 *     struct model m;
 *
 *     model_init(&m);
 *     model_fold_log(&m, log, set, resources_at(r)->seq);
 *     model_check(&m, r);
 *     model_fini(&m);
 *
 * Resources are http://example.com/r/N with a number below MODEL_MAX, and all
 * changes are such as model_changes makes.
 */
#ifndef TESTS_SUPPORT_MODEL_H
#define TESTS_SUPPORT_MODEL_H

#include <stdint.h>

#include "broker/log/batch.h"
#include "broker/log/log.h"
#include "broker/state/resources.h"
#include "proto/buf.h"
#include "proto/resourcesync/digest.h"

#define MODEL_MAX 4000

/* The event time of entry `seq` of model_batch. */
#define MODEL_TIME(seq) (INT64_C(1775067000000000) + (int64_t)(seq)*1000)

struct model {
    uint64_t seq;
    int64_t us;
    unsigned n_told; /* numbers of resources are below it */

    struct {
        char *entry; /* NULL: there is no such resource */
        uint64_t seq;
    } resources[MODEL_MAX];
};

void model_init(struct model *m);
void model_fini(struct model *m);

/* Folds entries `m->seq` + 1 to `last`, which the batch holds. */
void model_fold(struct model *m, const struct batch *batch, uint64_t last);

/* The same, out of a log. */
void model_fold_log(struct model *m, struct log *log, struct log_set *set,
                    uint64_t last);

/* The state is exactly this: position, sums, and each resource once. */
void model_check(const struct model *m, struct resources *r);

/* A random number below 2^31; the same sequence from the same *random. */
uint32_t model_random(uint64_t *random);

/* Appends `n` random changes of `n_resources` resources, as JSON for a post; or
 * as a batch behind `after`, which becomes its last entry, with `digest`. */
void model_changes(struct buf *json, uint64_t *random, unsigned n,
                   unsigned n_resources);
struct batch *model_batch(uint64_t *after, struct digest *digest,
                          uint64_t *random, unsigned n, unsigned n_resources);

#endif
