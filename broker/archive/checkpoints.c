#include "broker/archive/checkpoints.h"

#include <fcntl.h>
#include <unistd.h>

#include "broker/access/checkpoint_keys.h"
#include "broker/archive/set_progress.h"
#include "broker/state/tile_files.h"
#include "proto/resourcesync/json.h"

/* checkpoints.rest_us */
#define REST_US 1000000

/* A checkpoint of a list has no more. */
#define CHECKPOINT_MAX 20480

enum status
checkpoint_open_tree(struct set *set, const struct head *head, uint64_t upto,
                     int64_t at_us, struct tree_view *view, struct buf *to,
                     struct problem *why)
{
    struct registry *registry = set->registry;
    char origin[NOTE_NAME_SIZE];
    struct checkpoint checkpoint = {.size = 0};
    struct log_copy copy;
    struct head now;
    bool is_whole;
    enum status rc;

    /* The time is read before the head: entries that this head lacks have
     * later ones. */
    log_copy(registry->log, &copy);
    is_whole = log_head(set->log, &now) && now.last == head->last;
    rc = tree_view_open(view, set_path(set, "").text, registry->log, set->log,
                        head, upto, why);
    if (rc)
        return rc;
    if (upto == 0)
        at_us = is_whole && view->size == head->last && copy.past_us > view->us
                    ? copy.past_us
                    : view->us;
    checkpoint_origin(origin, registry->options.public_url, set->name,
                      head->epoch);
    checkpoint.origin = slice_of(origin);
    checkpoint.size = view->size;
    checkpoint.root = view->root;
    return checkpoint_keys_sign(registry->checkpoint_keys, &checkpoint,
                                (uint64_t)(at_us / 1000000), to, why);
}

/* The file of the closed lists */

/* Held while a file is compared and replaced: the archive thread and those of
 * witnesses do so. */
static pthread_mutex_t filing = PTHREAD_MUTEX_INITIALIZER;

/* Reads a file of the set into `text`, which lends the rest. */
static bool
read_file(struct set *set, const char *name, struct buf *text,
          struct note *note, struct checkpoint *checkpoint)
{
    char bytes[CHECKPOINT_MAX], path[64];
    ssize_t n;

    snprintf(path, sizeof(path), LOG_CHANGES "/%s", name);
    n = file_read(AT_FDCWD, set_path(set, path).text, bytes, sizeof(bytes));
    if (n > 0)
        buf_add(text, bytes, (size_t)n);
    return n > 0 && !note_read(buf_slice(text), note, NULL) &&
           !checkpoint_read(note, checkpoint, NULL);
}

static enum status
store_file(struct set *set, const char *name, struct slice text,
           struct problem *why)
{
    int dir_fd = -1;
    enum status rc = log_folder(set->registry->log, set->log, LOG_CHANGES, true,
                                &dir_fd, why);

    if (!rc)
        rc = file_store_bytes(dir_fd, name, text, false, why);
    file_close(&dir_fd);
    return rc;
}

/* True if a file has a checkpoint of that text. `room` gets the whole. */
static bool
has_same(struct set *set, const char *name, struct slice text, struct buf *room)
{
    struct note note;
    struct checkpoint checkpoint;

    return read_file(set, name, room, &note, &checkpoint) &&
           slice_equal(note.text, text);
}

/* The size of the checkpoint that is there; 0: none is. */
static uint64_t
read_filed(struct set *set, const struct head *head, const char *name)
{
    struct buf text = {.max = CHECKPOINT_MAX};
    struct checkpoint checkpoint;
    struct note note;
    uint64_t size = 0;

    if (read_file(set, name, &text, &note, &checkpoint) &&
        slice_ends(checkpoint.origin, head->epoch))
        size = checkpoint.size;
    buf_fini(&text);
    return size;
}

uint64_t
checkpoint_of_lists(struct set *set, const struct head *head)
{
    return read_filed(set, head, LOG_CHECKPOINT);
}

uint64_t
checkpoint_filed(struct set *set, const struct head *head)
{
    uint64_t size = checkpoint_of_lists(set, head);
    uint64_t witnessed = read_filed(set, head, LOG_WITNESSED);

    return witnessed > size ? witnessed : size;
}

/* Writes the tiles of the tree that are not full. */
static enum status
write_last_tiles(struct tree_view *view, struct problem *why)
{
    struct digest hashes[TILE_WIDTH];
    enum status rc = STATUS_OK;

    for (unsigned level = 0; !rc && level < TILE_LEVELS; level++) {
        uint64_t number = view->size >> (8 * level) >> 8;
        unsigned width = tree_tile_width(view->size, level, number);

        if (width > 0)
            rc = view->tiles.read(&view->tiles, level, number, width, hashes,
                                  why);
        if (!rc && width > 0)
            rc = tile_file_write(view->dir.text, level, number, width, hashes,
                                 why);
    }
    return rc ? rc : tile_files_sync(view->dir.text, why);
}

/* Removes those of the tree of the last checkpoint, of `size` entries, that the
 * one of `now` has not. */
static void
remove_last_tiles(const struct set *set, uint64_t size, uint64_t now)
{
    for (unsigned level = 0; level < TILE_LEVELS; level++) {
        uint64_t number = size >> (8 * level) >> 8;
        unsigned width = tree_tile_width(size, level, number);

        if (width > 0 && (number != now >> (8 * level) >> 8 ||
                          width != tree_tile_width(now, level, number)))
            tile_file_remove(set_path(set, "").text, level, number, width);
    }
}

/* With the cosignatures that this end already has. A copy of the folder of a
 * set that has tiles has all tiles of that tree. */
static enum status
write_file(struct set *set, const struct head *head, struct problem *why)
{
    struct buf text = {.max = CHECKPOINT_MAX}, room = {.max = CHECKPOINT_MAX};
    uint64_t last = checkpoint_of_lists(set, head);
    struct tree_view view;
    struct note note;
    enum status rc = checkpoint_open_tree(
        set, head, head->list_after, head->list_from_us, &view, &text, why);

    if (!rc && !set_is_small(set, head))
        rc = write_last_tiles(&view, why);
    tree_view_close(&view);
    if (!rc)
        rc = note_read(buf_slice(&text), &note, why);
    pthread_mutex_lock(&filing);
    if (!rc)
        rc = store_file(set, LOG_CHECKPOINT,
                        has_same(set, LOG_WITNESSED, note.text, &room)
                            ? buf_slice(&room)
                            : buf_slice(&text),
                        why);
    pthread_mutex_unlock(&filing);
    if (!rc)
        remove_last_tiles(set, last, head->list_after);
    buf_fini(&room);
    buf_fini(&text);
    return rc;
}

/* Cosignatures */

enum status
checkpoint_keep_witnessed(struct set *set, struct slice text,
                          struct problem *why)
{
    struct buf room = {.max = CHECKPOINT_MAX};
    struct note note;
    enum status rc = note_read(text, &note, why);

    pthread_mutex_lock(&filing);
    if (!rc)
        rc = store_file(set, LOG_WITNESSED, text, why);
    if (!rc && has_same(set, LOG_CHECKPOINT, note.text, &room))
        rc = store_file(set, LOG_CHECKPOINT, text, why);
    pthread_mutex_unlock(&filing);
    buf_fini(&room);
    return rc;
}

bool
checkpoint_read_witnessed(struct set *set, const struct head *head,
                          struct buf *text, struct note *note,
                          struct checkpoint *checkpoint)
{
    char origin[NOTE_NAME_SIZE];

    checkpoint_origin(origin, set->registry->options.public_url, set->name,
                      head->epoch);
    return read_file(set, LOG_WITNESSED, text, note, checkpoint) &&
           slice_is(checkpoint->origin, origin);
}

void
checkpoint_add_cosignatures(struct buf *text, const struct note *cosigned,
                            struct slice origin)
{
    struct slice rest = cosigned->signatures;
    struct note_key log = {.kind = NOTE_SIGNATURE}, cosigner;
    struct note fresh;

    if (note_read(buf_slice(text), &fresh, NULL) ||
        !slice_equal(fresh.text, cosigned->text))
        return;
    slice_copy(log.name, sizeof(log.name), origin);
    cosigner = note_cosigner(&log, false);
    while (rest.size > 0) {
        struct slice line = slice_take(&rest, '\n'), rest_of = line, name;

        (void)slice_take(&rest_of, ' '); /* the dash */
        name = slice_take(&rest_of, ' ');
        if (slice_is(name, log.name) || slice_is(name, cosigner.name))
            continue;
        buf_add_slice(text, line);
        BUF_ADD(text, "\n");
    }
}

/* Streams */

const struct json_shape checkpoint_text_shape = {
    "StreamCheckpoint", "The newest checkpoint of a set, on its stream",
    "set string, epoch string, last? count (the entries that it signs), "
    "checkpoint? string (a signed note), sum? string (of the ids of all "
    "resources at that entry, COUNT-SUM, once somebody has asked for a "
    "comparison), "
    "detail? string (why the set has none)"};

/* True if streams wait for a checkpoint, or no stream wants it any more. */
static bool
lacks_text(const struct set *set)
{
    return load_relaxed(&set->checkpoints_wanted) == 0
               ? load_relaxed(&set->checkpoint_us) > 0
               : clock_steady_us() >= set->progress->tree.text_us;
}

/* Makes the text for streams, which may say only that the set can have no
 * checkpoint; or frees it. */
static enum status
renew_text(struct set *set, const struct head *head, int64_t every_us,
           struct problem *why)
{
    struct buf text = {.max = 2 * CHECKPOINT_MAX},
               witnessed = {.max = CHECKPOINT_MAX}, json = {.max = SIZE_MAX};
    struct checkpoint checkpoint;
    struct tree_view view;
    struct id_sum sum;
    struct note note;
    uint64_t seq;
    enum status rc;

    set->progress->tree.text_us = 0;
    if (load_relaxed(&set->checkpoints_wanted) == 0) {
        registry_set_checkpoint(set, 0, SLICE(""));
        return STATUS_OK;
    }
    rc = checkpoint_open_tree(set, head, 0, 0, &view, &text, why);
    tree_view_close(&view);
    if (rc == STATUS_BUSY) /* no key yet, or not folded so far */
        return STATUS_OK;
    if (!rc &&
        checkpoint_read_witnessed(set, head, &witnessed, &note, &checkpoint))
        checkpoint_add_cosignatures(&text, &note, checkpoint.origin);
    BUF_ADD(&json, "{");
    json_text_member(&json, "set", slice_of(set->name));
    json_text_member(&json, "epoch", slice_of(head->epoch));
    if (rc) {
        json_text_member(&json, "detail", slice_of(why->text));
    } else {
        json_number_member(&json, "last", view.size);
        json_text_member(&json, "checkpoint", buf_slice(&text));
        if (registry_sum(set, &seq, &sum) && seq == view.size)
            json_text_member(&json, "sum", slice_of(id_sum_text(&sum).text));
    }
    BUF_ADD(&json, "}");
    if (!rc || rc == STATUS_NOT_FOUND)
        registry_set_checkpoint(set, rc ? 0 : view.size, buf_slice(&json));
    set->progress->tree.text_us = clock_steady_us() + every_us;
    buf_fini(&witnessed);
    buf_fini(&text);
    buf_fini(&json);
    return rc == STATUS_NOT_FOUND ? STATUS_OK : rc;
}

/* Folding */

/* Sets *is_other: the rows are not those of the log, or are ahead of it. */
static enum status
compare_log(struct fold_db *db, const struct set *set, const struct head *head,
            bool *is_other, struct problem *why)
{
    struct digest digest = head->digest;
    struct batch *batch = NULL;
    enum status rc = STATUS_OK;

    *is_other = db->at.seq > head->last;
    if (*is_other || db->is_same_log || !db->at.has_digest)
        return rc;
    if (db->at.seq < head->last)
        rc = log_read(set->registry->log, set->log, db->at.seq, LOG_DISK,
                      &batch, why);
    if (batch)
        digest = batch_digest(batch, db->at.seq);
    batch_unref(batch);
    db->is_same_log = !rc && digest_is_equal(&digest, &db->at.digest);
    *is_other = !rc && !db->is_same_log;
    return rc == STATUS_GONE ? STATUS_OK : rc;
}

static enum status
fold_some(struct checkpoints *c, struct set *set, const struct head *head,
          struct problem *why)
{
    struct tree_progress *n = &set->progress->tree;
    struct fold_db *db;
    bool is_other = false;
    enum status rc = folds_open(&c->trees, set, head->origin, &db, why);

    if (rc)
        return rc;
    if (db->at.seq == 0) /* it may have begun anew, without its files */
        n->filed = UINT64_MAX;
    rc = compare_log(db, set, head, &is_other, why);
    /* The key may have signed this tree, and has not signed another one until
     * now (tree_view_open). The copies of a cluster have one log, of which the
     * journal decides. */
    if (!rc && is_other && !n->has_new_epoch &&
        !log_is_shared(set->registry->log))
        rc = log_begin_epoch(set->registry->log, set->log,
                             "its tree is that of another log, as of an older "
                             "copy",
                             why);
    if (!rc && is_other) {
        store_relaxed(&set->tiled, 0);
        n->filed = UINT64_MAX;
        rc = fold_db_begin(db, 0, why);
    }
    n->has_new_epoch = false;
    if (!rc && db->at.seq < head->last && tree_db_is_whole(db))
        rc = folds_advance(&c->trees, set, head->last, why);
    n->is_known = true;
    n->is_lost = !tree_db_is_whole(db);
    n->seq = db->at.seq;
    if (!rc && !n->is_lost)
        store_relaxed(&set->tiled, n->seq);
    if (rc)
        folds_drop(&c->trees, set);
    return rc;
}

/* True if the set is to be folded, which a small one is for retention alone. */
static bool
is_behind(const struct checkpoints *c, const struct set *set,
          const struct head *head)
{
    const struct tree_progress *n = &set->progress->tree;
    uint64_t seq = n->is_known ? n->seq : 0;

    if (n->is_lost)
        return false;
    if (n->wanted > seq) /* which makes room on a full disk */
        return true;
    if (set_is_small(set, head) || (n->is_known && seq == head->last) ||
        !chore_has_room(set->registry))
        return false;
    return !n->is_known || seq > head->last || clock_steady_us() >= n->due_us ||
           (head->list_after > seq &&
            clock_now_us() >= head->last_us + c->rest_us);
}

/* True if the closed lists have another end than their checkpoint. It waits for
 * the list to have its file. */
static bool
lacks_file(struct set *set, const struct head *head)
{
    struct tree_progress *n = &set->progress->tree;

    if (n->is_lost || head->list_after == n->filed || head->list_after == 0 ||
        clock_steady_us() < n->retry_us ||
        (!set_is_small(set, head) &&
         (!n->is_known || n->seq < head->list_after)))
        return false;
    if (n->filed == 0)
        n->filed = checkpoint_of_lists(set, head);
    return head->list_after != n->filed;
}

static bool
wants_turn(struct set *set, const struct head *head, void *user)
{
    return set != set->registry->framework &&
           (is_behind(user, set, head) || lacks_file(set, head) ||
            lacks_text(set));
}

static bool
advance_some(struct chore *chore)
{
    struct checkpoints *c = list_entry(chore, struct checkpoints, chore);
    int64_t every_us = c->turn.registry->config->checkpoint_every_us;
    struct problem why = {""};
    struct head head;
    struct set *set;
    enum status rc = STATUS_GONE;
    bool is_more = false;

    set = turn_next(&c->turn);
    if (!set)
        return false;
    if (log_head(set->log, &head)) {
        struct tree_progress *n = &set->progress->tree;

        rc = STATUS_OK;
        if (is_behind(c, set, &head)) {
            rc = fold_some(c, set, &head, &why);
            is_more = !rc && !n->is_lost && n->seq < head.last;
            if (!is_more)
                n->due_us = clock_steady_us() + every_us;
        }
        if (!rc && lacks_file(set, &head)) {
            rc = write_file(set, &head, &why);
            n->filed = rc ? n->filed : head.list_after;
            n->retry_us = rc ? clock_steady_us() + every_us : 0;
            if (rc == STATUS_BUSY) /* no key yet, or not folded so far */
                rc = STATUS_OK;
        }
        if (!rc && !is_more && lacks_text(set) && log_head(set->log, &head))
            rc = renew_text(set, &head, every_us, &why);
    }
    return turn_end(&c->turn, set, rc, is_more,
                    "the tree of a set could not be brought up to date, and "
                    "will be tried again",
                    &why);
}

bool
checkpoints_need(struct set *set, const struct list_info *list)
{
    struct tree_progress *n = &set->progress->tree;

    if (n->is_lost || (n->is_known && n->seq >= list->last))
        return false;
    if (n->wanted < list->last)
        n->wanted = list->last;
    return true;
}

/* Reports an unusable file once for each change of it. */
static void
look_for_keys(struct chore *chore)
{
    struct checkpoints *c = list_entry(chore, struct checkpoints, chore);
    struct problem why = {""};

    if (checkpoint_keys_look(c->turn.registry->checkpoint_keys, &why))
        DIAG(DIAG_ERROR, "archive",
             "the keys of checkpoints have changed, the former ones stay",
             diag_text("error", why.text));
}

void
checkpoints_init(struct checkpoints *c, struct registry *registry)
{
    memset(c, 0, sizeof(*c));
    c->chore = (struct chore){.look = look_for_keys,
                              .turn = &c->turn,
                              .folds = &c->trees,
                              .step = advance_some,
                              .needs = checkpoints_need};
    c->rest_us = REST_US;
    folds_init(&c->trees, &tree_folding);
    turn_init(&c->turn, TURN_TREE, registry, wants_turn, c);
}
