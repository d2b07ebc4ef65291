/*
 * The file has the tiles that are not full, and the properties of the tree:
 *
 *   tiles  level, number, hashes
 *   state  its only row: epoch, seq, us, digest, is_whole
 */
#include "broker/state/tree_db.h"

#include <unistd.h>

#include "broker/state/tile_files.h"

/* The limits of gathering for one commit. */
#define GATHER_ENTRIES 64000
#define GATHER_BYTES   ((size_t)GATHER_ENTRIES * DIGEST_SIZE)

static const char *const steps[] = {
    "CREATE TABLE tiles("
    " level INTEGER NOT NULL, number INTEGER NOT NULL, hashes BLOB NOT NULL,"
    " PRIMARY KEY(level, number)) WITHOUT ROWID;"
    "CREATE TABLE state("
    " id INTEGER PRIMARY KEY, epoch TEXT NOT NULL, seq INTEGER NOT NULL,"
    " us INTEGER NOT NULL, digest BLOB, is_whole INTEGER NOT NULL);",

    /* Version 1 had rows of full tiles, too: move_rows. */
    "DELETE FROM tiles WHERE false",
};

const struct db_kind tree_kind = {
    .mode = DB_SMALL,
    DB_STEPS(steps),
    .opening = "PRAGMA cache_size=-512", /* KiB */
};

struct tree_db {
    struct fold_db fold;
    bool is_whole;
    struct digest chain; /* d(the last gathered entry) */
};

bool
tree_db_is_whole(const struct fold_db *f)
{
    return ((const struct tree_db *)f)->is_whole;
}

static enum status
read_hashes(struct db *db, unsigned level, uint64_t number, struct buf *hashes,
            struct problem *why)
{
    return db_find(db, NULL, why, NULL,
                   "SELECT hashes FROM tiles WHERE level=? AND number=?",
                   DB_VALUES(level, number), DB_INTO(hashes));
}

/* Folding */

/* Full tiles become files. */
#define FULL "FROM tiles WHERE length(hashes) = 8192"

static enum status
move_rows(struct fold_db *f, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&f->db, NULL, why, "SELECT level, number, hashes " FULL);
    struct slice hashes;
    bool is_some = false;
    uint64_t number;
    unsigned level;
    enum status rc;

    while (DB_NEXT(&rows, &level, &number, &hashes)) {
        rows.rc = tile_file_write(f->dir, level, number, TILE_WIDTH,
                                  (const struct digest *)hashes.data, why);
        is_some = true;
    }
    rc = db_rows_end(&rows);
    if (rc || !is_some)
        return rc;
    rc = tile_files_sync(f->dir, why);
    return rc ? rc : db_exec(&f->db, "DELETE " FULL "; VACUUM", why);
}

static enum status
read_state(struct fold_db *f, struct problem *why)
{
    struct tree_db *t = (struct tree_db *)f;
    enum status rc =
        db_find(&f->db, NULL, why, NULL,
                "SELECT epoch, seq, us, digest, length(digest)=32, is_whole"
                " FROM state",
                DB_VALUES(),
                DB_INTO(&f->epoch, &f->at.seq, &f->at.us, &f->at.digest,
                        &f->at.has_digest, &t->is_whole));

    return rc ? rc : move_rows(f, why);
}

static enum status
write_state(struct tree_db *t, const struct fold_mark *mark,
            struct problem *why)
{
    return DB_DO(&t->fold.db, NULL, why,
                 "INSERT OR REPLACE INTO state(id, epoch, seq, us, digest,"
                 " is_whole) VALUES(1,?,?,?,?,?)",
                 t->fold.epoch, mark->seq, mark->us,
                 mark->has_digest ? &mark->digest : NULL, t->is_whole);
}

static enum status
begin_file(struct fold_db *f, struct problem *why)
{
    struct tree_db *t = (struct tree_db *)f;
    enum status rc = tile_files_clear(f->dir, why);

    t->is_whole = f->at.seq == 0;
    return rc ? rc : write_state(t, &f->at, why);
}

static enum status
gather_entry(struct fold_db *f, struct slice fragment, uint32_t stamp,
             uint64_t seq)
{
    struct tree_db *t = (struct tree_db *)f;
    struct digest leaf;

    (void)stamp;
    (void)seq;
    if (f->n == 0 && f->at.has_digest)
        t->chain = f->at.digest;
    else if (f->n == 0)
        digest_sha256(&t->chain, slice_of(f->epoch));
    digest_add(&t->chain, fragment);
    tree_leaf(&leaf, &t->chain);
    buf_add(&f->texts, leaf.bytes, DIGEST_SIZE);
    f->n++;
    return f->texts.failed ? STATUS_MEMORY : STATUS_OK;
}

/* Adds the hashes of a level from `at` on, and the roots of tiles that they
 * fill, and for which there are files then, to the next one. */
static enum status
add_hashes(struct tree_db *t, unsigned level, uint64_t at, struct slice hashes,
           struct problem *why)
{
    struct buf roots = {.max = SIZE_MAX};
    uint64_t first_full = at / TILE_WIDTH;
    enum status rc = STATUS_OK;

    while (!rc && hashes.size > 0) {
        struct buf tile = {.max = TILE_BYTES};
        size_t before = at % TILE_WIDTH * DIGEST_SIZE, more;
        struct digest root;

        if (before > 0)
            rc = read_hashes(&t->fold.db, level, at / TILE_WIDTH, &tile, why);
        if (!rc && tile.size != before) {
            t->fold.db.is_damaged = true;
            rc = problem(why, STATUS_IO, TREE_FILE " lacks hashes");
        }
        more = hashes.size < TILE_BYTES - before ? hashes.size
                                                 : TILE_BYTES - before;
        buf_add(&tile, hashes.data, more);
        slice_skip(&hashes, more);
        if (!rc && tile.size < TILE_BYTES)
            rc = DB_DO(&t->fold.db, NULL, why,
                       "INSERT OR REPLACE INTO tiles VALUES(?,?,?)", level,
                       at / TILE_WIDTH, db_blob(buf_slice(&tile)));
        if (!rc && tile.size == TILE_BYTES) {
            const struct digest *full = (const struct digest *)tile.data;

            tree_tile_root(full, &root);
            buf_add(&roots, root.bytes, DIGEST_SIZE);
            rc = tile_file_write(t->fold.dir, level, at / TILE_WIDTH,
                                 TILE_WIDTH, full, why);
            if (!rc && before > 0)
                rc = DB_DO(&t->fold.db, NULL, why,
                           "DELETE FROM tiles WHERE level=?", level);
        }
        at += more / DIGEST_SIZE;
        buf_fini(&tile);
    }
    if (!rc && roots.size > 0)
        rc = add_hashes(t, level + 1, first_full, buf_slice(&roots), why);
    buf_fini(&roots);
    return rc;
}

static enum status
commit_leaves(struct fold_db *f, struct problem *why)
{
    struct tree_db *t = (struct tree_db *)f;
    enum status rc = db_begin(&f->db, why);

    if (!rc && t->is_whole)
        rc = add_hashes(t, 0, f->at.seq, buf_slice(&f->texts), why);
    if (!rc && t->is_whole &&
        f->gathered.seq / TILE_WIDTH > f->at.seq / TILE_WIDTH)
        rc = tile_files_sync(f->dir, why);
    if (!rc)
        rc = write_state(t, &f->gathered, why);
    rc = db_end(&f->db, rc, why);
    if (!rc)
        f->at = f->gathered;
    return rc;
}

static void
release_nothing(struct fold_db *f)
{
    (void)f;
}

const struct fold_kind tree_folding = {
    .db = &tree_kind,
    .file = TREE_FILE,
    .begins_anew = "the tree of a set begins anew: whoever has an earlier "
                   "checkpoint may refuse the next ones",
    .is_damaged = "the tree of a set is damaged, and will begin anew",
    .size = sizeof(struct tree_db),
    .max_entries = GATHER_ENTRIES,
    .max_bytes = GATHER_BYTES,
    .read = read_state,
    .begin = begin_file,
    .gather = gather_entry,
    .commit = commit_leaves,
    .release = release_nothing,
};

/* Reading */

static enum status
read_tile(const struct tree_tiles *tiles, unsigned level, uint64_t number,
          unsigned width, struct digest *hashes, struct problem *why)
{
    struct tree_view *v = tiles->user;
    struct buf row = {.max = TILE_BYTES};
    struct digest below[TILE_WIDTH];
    unsigned have;
    enum status rc = v->db.handle
                         ? read_hashes(&v->db, level, number, &row, why)
                         : STATUS_OK;

    have = (unsigned)(row.size / DIGEST_SIZE);
    if (have > width)
        have = width;
    if (have > 0)
        memcpy(hashes, row.data, (size_t)have * DIGEST_SIZE);
    else if (!rc && tree_tile_width(v->folded, level, number) > 0 &&
             tile_file_read(v->dir.text, level, number, TILE_WIDTH, below)) {
        memcpy(hashes, below, (size_t)width * DIGEST_SIZE);
        have = width;
    }
    buf_fini(&row);
    for (unsigned i = have; !rc && i < width; i++) {
        uint64_t at = number * TILE_WIDTH + i;

        if (level > 0) {
            rc = read_tile(tiles, level - 1, at, TILE_WIDTH, below, why);
            if (!rc)
                tree_tile_root(below, &hashes[i]);
        } else if (at >= v->folded && at < v->size) {
            hashes[i] = v->leaves[at - v->folded];
        } else {
            rc = problem(why, STATUS_IO, TREE_FILE " lacks hashes");
        }
    }
    return rc;
}

/* Reads how far the rows are, unless they are those of another set. The archive
 * thread may just be making the file: then there are none yet. */
static enum status
read_folded(struct tree_view *v, const char *dir, const struct head *head,
            struct digest *chain)
{
    struct file_path path = file_path("%s/%s", dir, TREE_FILE);
    char epoch[EPOCH_SIZE + 1] = "";
    struct digest digest;
    bool is_whole = false;
    uint64_t seq = 0;
    int64_t us = 0;

    if (access(path.text, F_OK) ||
        db_open(&v->db, path.text, DB_READER, NULL) ||
        db_find(&v->db, NULL, NULL, NULL,
                "SELECT epoch, seq, us, digest, is_whole FROM state",
                DB_VALUES(), DB_INTO(&epoch, &seq, &us, &digest, &is_whole)) ||
        strcmp(epoch, head->origin) != 0 || seq == 0) {
        db_close(&v->db);
        return head->earliest > 0 ? STATUS_BUSY : STATUS_OK;
    }
    if (!is_whole)
        return STATUS_GONE;
    v->folded = seq;
    v->us = us;
    *chain = digest;
    return STATUS_OK;
}

/* Decides how many leaves the tree has, and hashes the entries of the log that
 * are in no row. */
static enum status
read_leaves(struct tree_view *v, struct log *log, struct log_set *set,
            const struct head *head, uint64_t upto, struct digest chain,
            struct problem *why)
{
    uint64_t at = v->folded;
    enum status rc = STATUS_OK;

    v->size = upto > 0 ? upto : head->last;
    if (v->folded < head->earliest)
        return STATUS_GONE;
    if (upto == 0 && v->folded > v->size)
        return problem(why, STATUS_BUSY,
                       "the tree of the set is ahead of its log");
    if (v->size > v->folded + TREE_UNFOLDED_MAX && (upto > 0 || !v->folded))
        return problem(why, STATUS_BUSY,
                       "the tree of the set is not built yet");
    if (v->size > v->folded + TREE_UNFOLDED_MAX)
        v->size = v->folded;
    if (v->size > at) {
        v->leaves = memory_new((size_t)(v->size - at), sizeof(*v->leaves));
        if (!v->leaves)
            return problem_memory(why);
    }
    while (at < v->size) {
        struct batch *batch = NULL;

        rc = log_read(log, set, at, LOG_DISK, &batch, why);
        if (rc || !batch)
            return rc ? rc : STATUS_GONE;
        for (; at < batch->last && at < v->size; at++) {
            digest_add(&chain, batch_slice(batch, at, at + 1));
            tree_leaf(&v->leaves[at - v->folded], &chain);
        }
        v->us = batch_time(batch, at);
        batch_unref(batch);
    }
    /* The log may be an older copy than the one that was folded. */
    if (v->size == head->last && v->size >= v->folded &&
        !digest_is_equal(&chain, &head->digest))
        rc = problem(why, STATUS_BUSY,
                     "the tree of the set is not that of its log");
    return rc;
}

enum status
tree_view_open(struct tree_view *v, const char *dir, struct log *log,
               struct log_set *set, const struct head *head, uint64_t upto,
               struct problem *why)
{
    struct tree_edge edge;
    struct digest chain;
    enum status rc;

    *v = (struct tree_view){.tiles = {read_tile, v},
                            .dir = file_path("%s", dir),
                            .us = head->created_us};
    digest_sha256(&chain, slice_of(head->origin));
    rc = read_folded(v, dir, head, &chain);
    if (rc == STATUS_BUSY)
        return problem(why, rc, "the tree of the set is not built yet");
    if (!rc)
        rc = read_leaves(v, log, set, head, upto, chain, why);
    if (rc == STATUS_GONE)
        return problem(why, STATUS_NOT_FOUND,
                       "the set has no checkpoints: it had lost its first "
                       "entries before it could have a tree");
    if (!rc)
        rc = tree_read_edge(&v->tiles, v->size, &edge, why);
    if (!rc)
        tree_edge_root(&edge, &v->root);
    return rc;
}

void
tree_view_close(struct tree_view *v)
{
    free(v->leaves);
    v->leaves = NULL;
    db_close(&v->db);
}
