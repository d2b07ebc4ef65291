/*
 * callback_guard.h - notices that a callback frees the object that calls it.
 *
 *     if (!SURVIVES(&reader->guard, reader->on_end(why, reader->user)))
 *         return;                        the callee has freed `reader`
 *
 * The function that frees the object calls callback_guard_trip. One callback of
 * an object at a time is guarded. All belongs to the object's thread.
 */
#ifndef CLIENT_LIB_CALLBACK_GUARD_H
#define CLIENT_LIB_CALLBACK_GUARD_H

#include <stdbool.h>
#include <stddef.h>

struct callback_guard {
    bool *is_freed; /* of the callback under way; NULL: there is none */
};

static inline void
callback_guard_trip(struct callback_guard *guard)
{
    if (guard->is_freed)
        *guard->is_freed = true;
}

/* Makes a call that may free the owner of `guard`. False: it has. */
#define SURVIVES(guard, call)                     \
    __extension__({                               \
        struct callback_guard *guarded = (guard); \
        bool guarded_is_freed = false;            \
        guarded->is_freed = &guarded_is_freed;    \
        call;                                     \
        if (!guarded_is_freed)                    \
            guarded->is_freed = NULL;             \
        !guarded_is_freed;                        \
    })

#endif
