/*
 * budgets.h - what many clients together may make the broker hold.
 *
 * Who is about to hold something reserves it first, and releases it when it is
 * gone; where there is no room, the client is asked to come again.
 *
 * Any thread.
 */
#ifndef BROKER_SETS_BUDGETS_H
#define BROKER_SETS_BUDGETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum budget {
    BUDGET_POSTS,   /* posts that are read or committed: --ingest-bytes */
    BUDGET_ANSWERS, /* pages of change memory that are being sent */
    BUDGETS
};

struct budgets {
    /* Relaxed: sums; they order nothing. */
    atomic_size_t reserved[BUDGETS];
    size_t limits[BUDGETS];
};

/* `posts_bytes`: the limit of BUDGET_POSTS. There is nothing to be freed. */
void budgets_init(struct budgets *budgets, size_t posts_bytes);

/* Could so much be reserved now? */
bool budgets_has_room(const struct budgets *budgets, enum budget budget,
                      size_t bytes);

/* false: the budget is exhausted, nothing was reserved. */
bool budgets_reserve(struct budgets *budgets, enum budget budget, size_t bytes);
void budgets_release(struct budgets *budgets, enum budget budget, size_t bytes);

/* Makes the metrics of the budget for posts what they are now. */
void budgets_measure(const struct budgets *budgets);

#endif
