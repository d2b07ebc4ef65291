/*
 * chore.h - something that the archive thread does again and again.
 *
 *     each second: look, of all --> one step of each, and again while there is
 *     more to do --> the thread ends: end, of all, the last one first
 *
 * A chore is a member of the struct that does it. The archiver lists them. Each
 * stands behind those whose state it uses, and so ends before them.
 *
 * Archive thread.
 */
#pragma once

#include "broker/archive/folds.h"
#include "broker/log/log.h"

/* Each function may be NULL. */
struct chore {
    struct list node;

    /* Finds out what is due. */
    void (*look)(struct chore *chore);
    struct turn *turn; /* each look makes it due; may be NULL */

    /* Databases that it folds: those of removed sets are closed before each
     * step, and all at its end; may be NULL. */
    struct folds *folds;

    /* Takes milliseconds, or stops when the log is ending (log_ending). false:
     * there is nothing to do, or it cannot be done now. */
    bool (*step)(struct chore *chore);

    /* Must retention leave that closed list of the set? Retention does not ask
     * while more lists than `patience` could go; 0: it always asks. */
    bool (*needs)(struct set *set, const struct list_info *list);
    size_t patience;

    void (*end)(struct chore *chore);
};

/* True if the disk has room for more than posts need (log_health). */
bool chore_has_room(struct registry *registry);

void chore_look(struct chore *chore);
void chores_look(const struct list *chores);

/* One step, and one of each; false: there is no more to do. */
bool chore_step(struct chore *chore);
bool chores_step(const struct list *chores);

/* Ends all, and leaves the list empty. */
void chores_end(struct list *chores);

/* Gives sets their turns: the clients that have made sets take turns, and so do
 * the sets of each. So many sets of one client delay those of another by one
 * step each. A kind of work has one struct turn. */
enum turn_kind {
    TURN_FOLD,
    TURN_TREE,
    TURN_CONTENT,
    TURN_FETCH,
    TURN_CHANGEDUMP,
    TURN_BUILD,
    TURN_ORDERED_BUILD,
    TURN_KINDS
};

/* A set that waits for its turn: of its notes. */
struct turn_place {
    struct list node; /* in the queue of its client; zero at first */
    struct set *set;
    bool has_failed; /* its last step; it was reported */
};

struct turn {
    enum turn_kind kind;
    struct registry *registry;
    bool (*wants)(struct set *set, const struct head *head, void *user);
    void *user;
    bool is_due;                 /* sets may want a turn that do not wait yet */
    struct client_turns waiting; /* sets, of the clients that have made them */
};

/* Begins without a waiting set. A set gets its turn if `wants` is true then. */
void
turn_init(struct turn *turn, enum turn_kind kind, struct registry *registry,
          bool (*wants)(struct set *set, const struct head *head, void *user),
          void *user);

/* Makes the set wait, unless it does. */
void turn_add(struct turn *turn, struct set *set);

/* Returns the next waiting set that wants its turn. If `is_due` is set, all
 * sets that want one wait from now on. NULL: none does. */
struct set *turn_next(struct turn *turn);

/* Ends the turn of a set with the outcome of its step; unless the set was
 * removed or the log is ending, counts a failure, and logs it as `failure` if
 * the step before did not fail. A set with more to do waits again. A failure
 * with one set (STATUS_IO) need not concern the next; any other, as of a full
 * disk, concerns all: then none waits until `is_due` is set, and it returns
 * false. */
bool turn_end(struct turn *turn, struct set *set, enum status rc, bool is_more,
              const char *failure, const struct problem *why);
