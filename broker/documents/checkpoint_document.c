/*
 * checkpoint_document.c - the checkpoint of a set, the tiles of its tree, and
 * proofs of its entries (C2SP tlog-checkpoint, tlog-tiles, tlog-proof).
 */
#include "broker/archive/checkpoints.h"
#include "broker/documents/documents.h"
#include "broker/state/tile_files.h"
#include "proto/number.h"
#include "proto/tlog/note.h"

/* Reads the query "NAME=NUMBER" of the path. */
static bool
query_is(const struct document_wish *wish, const char *name, uint64_t *number)
{
    struct slice query = wish->rest;

    (void)slice_take(&query, '?');
    return slice_skip_start(&query, name) && number_read(query, number);
}

/* The last checkpoint that witnesses have cosigned. */
struct cosigned {
    struct buf text;
    struct note note;
    struct checkpoint checkpoint;
    bool is_there;
};

static void
read_cosigned(const struct document_wish *wish, struct cosigned *cosigned)
{
    *cosigned = (struct cosigned){.text.max = NOTE_BYTES_MAX};
    cosigned->is_there =
        checkpoint_read_witnessed(wish->set, &wish->head, &cosigned->text,
                                  &cosigned->note, &cosigned->checkpoint);
}

/* Answers ?old=SIZE with a proof and then the checkpoint: its tree continues
 * that of SIZE. This is the body of add-checkpoint (C2SP tlog-witness). Answers
 * ?witnessed with the last cosigned checkpoint, perhaps of an earlier size. */
enum status
checkpoint_open(const struct document_wish *wish, struct document *document,
                struct problem *why)
{
    struct slice query = wish->rest;
    struct buf text = {.max = NOTE_BYTES_MAX}, note = {.max = NOTE_BYTES_MAX};
    struct tree_path path = {.n = 0};
    struct cosigned cosigned;
    struct note signed_note;
    struct tree_view view = {.size = 0};
    uint64_t old = 0;
    int64_t as_of_s = 0;
    bool has_old = query_is(wish, "old=", &old);
    bool is_signed;
    enum status rc = STATUS_OK;

    (void)slice_take(&query, '?');
    read_cosigned(wish, &cosigned);
    if (slice_is(query, "witnessed")) {
        as_of_s = cosigned.is_there ? note_time(&cosigned.note) : 0;
        if (!cosigned.is_there)
            rc = problem(why, STATUS_NOT_FOUND,
                         "no witness has cosigned a checkpoint of this set");
        rc = document_of_text(document, &cosigned.text, rc, why);
        document->as_of_s = as_of_s;
        return rc;
    }
    is_signed = !has_old && registry_signed(wish->set, &wish->head, &note);
    if (!is_signed)
        rc = checkpoint_open_tree(wish->set, &wish->head, 0, 0, &view, &note,
                                  why);
    if (!rc && !is_signed)
        registry_set_signed(wish->set, view.size, buf_slice(&note));
    if (!rc && old > view.size)
        rc = problem(why, STATUS_NOT_FOUND, "the tree has %" PRIu64 " entries",
                     view.size);
    if (!rc && old > 0)
        rc = tree_consistency(&view.tiles, old, view.size, &path, why);
    if (!rc && has_old) {
        buf_add_format(&text, "old %" PRIu64 "\n", old);
        tree_path_write(&text, &path);
    }
    if (!rc && cosigned.is_there)
        checkpoint_add_cosignatures(&note, &cosigned.note,
                                    cosigned.checkpoint.origin);
    if (!rc && !note_read(buf_slice(&note), &signed_note, NULL))
        as_of_s = note_time(&signed_note);
    buf_add_slice(&text, buf_slice(&note));
    buf_fini(&note);
    buf_fini(&cosigned.text);
    tree_view_close(&view);
    rc = document_of_text(document, &text, rc, why);
    document->as_of_s = as_of_s;
    return rc;
}

enum status
tile_open(const struct document_wish *wish, struct document *document,
          struct problem *why)
{
    struct slice query = wish->rest, path = slice_take(&query, '?');
    struct file_path dir = set_path(wish->set, "");
    struct digest hashes[TILE_WIDTH];
    struct buf bytes = {.max = TILE_BYTES};
    struct tree_view view;
    unsigned level, width;
    uint64_t number;
    enum status rc = STATUS_OK;

    if (!tree_tile_read(path, &level, &number, &width))
        return problem(why, STATUS_NOT_FOUND,
                       "the address of a tile is LEVEL/NUMBER or "
                       "LEVEL/NUMBER.p/WIDTH, such as 0/x001/234.p/17");
    /* A later set of this name has other tiles at the same addresses: only one
     * with the epoch, before it or LEVEL/NUMBER?EPOCH, stays for ever. */
    if (query.size > 0 && !slice_is(query, wish->head.epoch))
        return problem(why, STATUS_NOT_FOUND, "the set is of another epoch: %s",
                       wish->head.epoch);
    if (width < TILE_WIDTH ||
        tree_tile_width(load_relaxed(&wish->set->tiled), level, number) <
            width ||
        !tile_file_read(dir.text, level, number, width, hashes)) {
        rc = tree_view_open(&view, dir.text, wish->registry->log,
                            wish->set->log, &wish->head, 0, why);
        if (!rc && tree_tile_width(view.size, level, number) < width)
            rc = problem(why, STATUS_NOT_FOUND,
                         "the tree has no such tile: its size is %" PRIu64,
                         view.size);
        if (!rc)
            rc =
                view.tiles.read(&view.tiles, level, number, width, hashes, why);
        tree_view_close(&view);
    }
    if (!rc)
        buf_add(&bytes, hashes, (size_t)width * DIGEST_SIZE);
    rc = document_of_text(document, &bytes, rc, why);
    if (!rc)
        document->is_final = query.size > 0 || wish->names_epoch;
    return rc;
}

/* Writes d(seq - 1) and the entry, of which its reader makes the leaf, while
 * the log has them. */
static void
write_extra(struct buf *extra, const struct document_wish *wish, uint64_t seq)
{
    struct batch *batch = NULL;
    struct digest before;

    if (log_read(wish->registry->log, wish->set->log, seq - 1, LOG_DISK, &batch,
                 NULL) ||
        !batch)
        return;
    before = batch_digest(batch, seq - 1);
    buf_add(extra, before.bytes, DIGEST_SIZE);
    buf_add_slice(extra, batch_slice(batch, seq - 1, seq));
    batch_unref(batch);
}

enum status
proof_open(const struct document_wish *wish, struct document *document,
           struct problem *why)
{
    struct buf text = {.max = NOTE_BYTES_MAX + 2 * FRAGMENT_MAX},
               note = {.max = NOTE_BYTES_MAX},
               extra = {.max = DIGEST_SIZE + FRAGMENT_MAX};
    struct cosigned cosigned;
    struct tree_path path;
    struct tree_view view;
    uint64_t seq = 0;
    enum status rc;

    if (!query_is(wish, "seq=", &seq) || seq == 0)
        return problem(why, STATUS_MALFORMED,
                       "seq: the number of an entry, from 1 on");
    read_cosigned(wish, &cosigned);
    if (cosigned.is_there && seq <= cosigned.checkpoint.size &&
        cosigned.checkpoint.size <= wish->head.last) {
        rc = tree_view_open(&view, set_path(wish->set, "").text,
                            wish->registry->log, wish->set->log, &wish->head,
                            cosigned.checkpoint.size, why);
        buf_add_slice(&note, buf_slice(&cosigned.text));
    } else {
        rc = checkpoint_open_tree(wish->set, &wish->head, 0, 0, &view, &note,
                                  why);
    }
    buf_fini(&cosigned.text);
    if (!rc && seq > view.size)
        rc = problem(why, STATUS_NOT_FOUND, "the tree has %" PRIu64 " entries",
                     view.size);
    if (!rc)
        rc = tree_inclusion(&view.tiles, seq - 1, view.size, &path, why);
    if (!rc) {
        write_extra(&extra, wish, seq);
        tlog_proof_write(&text, buf_slice(&extra), seq - 1, &path);
    }
    buf_add_slice(&text, buf_slice(&note));
    buf_fini(&extra);
    buf_fini(&note);
    tree_view_close(&view);
    return document_of_text(document, &text, rc, why);
}
