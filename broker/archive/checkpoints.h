/*
 * checkpoints.h - checkpoints of sets (proto/tlog/note.h), and the folding of
 * their trees (broker/state/tree_db.h).
 *
 *     closed list --> leaves, hashed --> tree.db
 *                \--> its file --> sets/NAME/changes/checkpoint
 *     streams want one: each --checkpoint-every --> registry_set_checkpoint
 *
 * Nobody waits for the fold: a checkpoint that is asked for hashes the entries
 * behind the folded ones itself, if they are few. So a set is folded each
 * --checkpoint-every if it has new entries, when it had no post for a while and
 * a list has closed, and when retention waits for it. Before retention deletes
 * a list its leaves are in tree.db, from where no crash can take them.
 *
 * The file `checkpoint` beside the closed lists is of their end. So a copy of
 * that folder can be verified without the broker.
 */
#pragma once

#include "broker/archive/chore.h"
#include "broker/state/tree_db.h"
#include "proto/tlog/note.h"

struct checkpoints {
    struct chore chore;
    struct folds trees;
    struct turn turn;
    int64_t rest_us; /* a set without a post for so long has its closed lists
                        folded at once */
};

void checkpoints_init(struct checkpoints *checkpoints,
                      struct registry *registry);

/* As chore.needs. */
bool checkpoints_need(struct set *set, const struct list_info *list);

/* Returns the size of the file `checkpoint` beside the closed lists; 0: there is
 * no such file of this epoch. May block. */
uint64_t checkpoint_of_lists(struct set *set, const struct head *head);

/* How many entries of this epoch the key has signed, as far as files beside the
 * closed lists say; 0: none. May block. */
uint64_t checkpoint_filed(struct set *set, const struct head *head);

/* Opens the tree of a set with that head, and appends its signed checkpoint:
 * tree_view_open, whose `upto` and failures it has. `at_us`: T(upto) of an
 * `upto` that is not 0. The caller closes the view. Any thread that may wait
 * for the disk. */
MUST_CHECK enum status
checkpoint_open_tree(struct set *set, const struct head *head, uint64_t upto,
                     int64_t at_us, struct tree_view *view, struct buf *to,
                     struct problem *why);

/* Appends the cosignatures of a note that the log of that origin has signed to
 * a fresh checkpoint, if they are of the same text. */
void checkpoint_add_cosignatures(struct buf *text, const struct note *cosigned,
                                 struct slice origin);

/* Stores a checkpoint with cosignatures of witnesses (witnesses.h): in the file
 * `checkpoint.witnessed` beside the closed lists, and in that of their end, if
 * it is of that size. */
MUST_CHECK enum status checkpoint_keep_witnessed(struct set *set,
                                                 struct slice text,
                                                 struct problem *why);

/* Reads the last one; `text` lends the note and the checkpoint. False: there is
 * none of this log. May block. */
bool checkpoint_read_witnessed(struct set *set, const struct head *head,
                               struct buf *text, struct note *note,
                               struct checkpoint *checkpoint);

/* The object that registry_set_checkpoint hands to streams. */
extern const struct json_shape checkpoint_text_shape;
