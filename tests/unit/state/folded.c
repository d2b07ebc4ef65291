#include "tests/unit/state/folded.h"

#include <stdlib.h>

#include "tests/support/fold_dbs.h"
#include "tests/test.h"

void
folded_open_state(struct folded *w)
{
    struct problem why = {""};

    if (resources_open(&w->resources, w->dir.path, EPOCH, &why))
        fail_msg("%s", why.text);
}

void
folded_close_state(struct folded *w)
{
    if (w->resources)
        fold_db_close(fold_db_of(w->resources));
    w->resources = NULL;
}

void
folded_reopen(struct folded *w)
{
    folded_close_state(w);
    folded_open_state(w);
}

int
folded_setup(void **state)
{
    struct folded *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    tempdir_open(&w->dir);
    w->random = 7;
    model_init(&w->model);
    *state = w;
    return 0;
}

int
folded_teardown(void **state)
{
    struct folded *w = *state;

    folded_close_state(w);
    model_fini(&w->model);
    for (size_t i = 0; i < w->n_batches; i++)
        batch_unref(w->batches[i]);
    tempdir_close(&w->dir);
    free(w);
    return 0;
}

void
folded_open(struct folded *w, size_t n_batches, unsigned n,
            unsigned n_resources)
{
    struct digest digest;
    uint64_t after = 0;

    w->n_batches = n_batches;
    digest_sha256(&digest, SLICE(EPOCH));
    for (size_t i = 0; i < n_batches; i++)
        w->batches[i] =
            model_batch(&after, &digest, &w->random,
                        1 + model_random(&w->random) % n, n_resources);
    folded_open_state(w);
}

const struct batch *
folded_batch(const struct folded *w, uint64_t seq)
{
    for (size_t i = 0; i < w->n_batches; i++)
        if (seq <= w->batches[i]->last)
            return w->batches[i];
    return NULL;
}

uint64_t
folded_last(const struct folded *w)
{
    return w->batches[w->n_batches - 1]->last;
}

uint64_t
folded_on(struct folded *w, uint64_t seq, uint64_t last)
{
    const struct batch *b = folded_batch(w, seq + 1);
    struct problem why = {""};

    if (last > b->last)
        last = b->last;
    if (fold_db_add(fold_db_of(w->resources), b, last, &why))
        fail_msg("%s", why.text);
    return last;
}

void
folded_commit(struct folded *w)
{
    struct problem why = {""};

    if (fold_db_commit(fold_db_of(w->resources), &why))
        fail_msg("%s", why.text);
}

void
folded_to(struct folded *w, uint64_t last)
{
    uint64_t seq = resources_at(w->resources)->seq;

    while (seq < last)
        seq = folded_on(w, seq, last);
    folded_commit(w);
}

void
folded_to_batch(struct folded *w, size_t i)
{
    folded_to(w, w->batches[i]->last);
}

void
folded_check(struct folded *w)
{
    uint64_t seq = resources_at(w->resources)->seq;

    while (w->model.seq < seq) {
        const struct batch *b = folded_batch(w, w->model.seq + 1);

        model_fold(&w->model, b, b->last < seq ? b->last : seq);
    }
    model_check(&w->model, w->resources);
}

void
folded_check_all(struct folded *w)
{
    folded_to(w, folded_last(w));
    folded_check(w);
}
