#include "broker/log/cursor.h"

#include "broker/log/log_set.h"

enum status
cursor_next(const struct cursor *cursor, enum log_patience patience,
            struct batch **batch, struct problem *why)
{
    return log_read(cursor->log, cursor->set, cursor->after, patience, batch,
                    why);
}

void
cursor_watch(struct log_set *set, struct watch *watch)
{
    pthread_mutex_lock(&set->tail.mutex);
    list_append(&set->tail.watches, &watch->node);
    pthread_mutex_unlock(&set->tail.mutex);
}

void
cursor_unwatch(struct log_set *set, struct watch *watch)
{
    pthread_mutex_lock(&set->tail.mutex);
    list_remove(&watch->node);
    pthread_mutex_unlock(&set->tail.mutex);
}
