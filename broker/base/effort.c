#include "broker/base/effort.h"

void
efforts_init(struct efforts *efforts, unsigned most)
{
    pthread_mutex_init(&efforts->mutex, NULL);
    client_turns_init(&efforts->waiting, CLIENT_QUEUE_EFFORT);
    efforts->n = 0;
    efforts->most = most;
}

enum status
effort_wait(struct effort *effort, struct clients *clients,
            struct client *client, struct problem *why)
{
    struct efforts *all = effort->efforts;
    enum status rc = STATUS_OK;
    bool is_next;

    effort->used = 0;
    if (effort->place.n == 0) {
        holding_init(&effort->place, clients, client, CLIENT_EFFORTS);
        rc = holding_add(&effort->place, 1, why);
    }
    if (rc) {
        effort_leave(effort);
        return rc;
    }
    pthread_mutex_lock(&all->mutex);
    is_next = all->n < all->most;
    if (is_next)
        all->n++;
    else
        client_turns_add(&all->waiting, client, &effort->node);
    pthread_mutex_unlock(&all->mutex);
    if (is_next)
        effort->begin(effort);
    return STATUS_OK;
}

bool
effort_cancel(struct effort *effort)
{
    struct efforts *all = effort->efforts;
    bool was_waiting;

    store_relaxed(&effort->is_unwanted, true);
    pthread_mutex_lock(&all->mutex);
    was_waiting =
        client_turns_drop(&all->waiting, effort->place.client, &effort->node);
    pthread_mutex_unlock(&all->mutex);
    return was_waiting;
}

void
effort_end(struct effort *effort)
{
    struct efforts *all = effort->efforts;
    struct list *next;

    pthread_mutex_lock(&all->mutex);
    next = client_turns_next(&all->waiting);
    if (!next)
        all->n--;
    pthread_mutex_unlock(&all->mutex);
    if (next) {
        effort = list_entry(next, struct effort, node);
        effort->begin(effort);
    }
}

void
effort_leave(struct effort *effort)
{
    holding_end(&effort->place);
}

bool
effort_spend(struct effort *effort, uint64_t units)
{
    if (!effort)
        return true;
    effort->used += units;
    return effort->used <= effort->most && !load_relaxed(&effort->is_unwanted);
}

bool
effort_is_used_up(const struct effort *effort)
{
    return effort && effort->used > effort->most &&
           !load_relaxed(&effort->is_unwanted);
}

static int
spend_operations(void *user)
{
    return !effort_spend(user, EFFORT_OF_OPERATIONS);
}

void
effort_watch(struct effort *effort, struct db *db)
{
    if (effort)
        db_interrupt(db, spend_operations, effort);
}

enum status
effort_why(const struct effort *effort, enum status rc, struct problem *why)
{
    if (!effort || !rc)
        return rc;
    if (load_relaxed(&effort->is_unwanted))
        return problem(why, STATUS_STOPPED, "nobody waits for the answer");
    if (effort_is_used_up(effort))
        return problem(why, STATUS_LIMITED,
                       "the answer takes more work than a request may ask for");
    return rc;
}
