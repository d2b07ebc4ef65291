/*
 * verify_signed.c - compares the entries that were read with a signed
 * checkpoint.
 *
 *     entry --d(seq)--> leaf --> a file without a name, 32 bytes each
 *                                         |
 *     checkpoint --signatures--> root <-- tree of the first `size` leaves
 *
 * The lists may begin later than the log: then the tiles of the broker bring
 * what is before, and the root proves that, too. If the roots differ, the tiles
 * say from which entry on.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "client/lib/fetch.h"
#include "client/lib/temporary_file.h"
#include "client/lib/trust.h"
#include "client/verify/verify.h"
#include "proto/base64.h"

/* The longest proof; a checkpoint and a tile have less. */
#define PROOF_MAX (NOTE_BYTES_MAX + 2 * FRAGMENT_MAX)

enum status
verify_leaf(const struct list_entry *entry, void *user, struct problem *why)
{
    struct verify *v = user;
    struct digest hash;
    off_t at = (off_t)((entry->view->seq - 1) * DIGEST_SIZE);

    if (v->leaves_fd < 0)
        v->leaves_fd = temporary_file_open(why);
    if (v->leaves_fd < 0)
        return STATUS_IO;
    tree_leaf(&hash, entry->digest);
    return pwrite(v->leaves_fd, hash.bytes, DIGEST_SIZE, at) == DIGEST_SIZE
               ? STATUS_OK
               : problem_errno(why, "cannot write", "a temporary file");
}

/* Fetches a small document. */
static enum status
fetch_small(struct verify *v, const char *url, struct buf *body)
{
    const struct fetch_request request = {
        .url = url, .max_bytes = PROOF_MAX, .redirects = 5};
    struct fetch_answer answer;
    enum status rc = fetch_run(v->client, &request, NULL, NULL, &answer);

    if (!rc && answer.status != 200) {
        struct problem why = {""};

        rc = fetch_refused(&why, &answer);
        rc = client_fail(v->client, rc, "%.800s: %s", url, why.text);
    }
    *body = answer.body;
    return rc;
}

/* Tiles lie beside the checkpoint (C2SP tlog-tiles). */
static enum status
read_tile(const struct tree_tiles *tiles, unsigned level, uint64_t number,
          unsigned width, struct digest *hashes, struct problem *why)
{
    struct verify *v = tiles->user;
    unsigned wide = tree_tile_width(v->signed_size, level, number);
    size_t prefix = strlen(v->checkpoint_url) - strlen("checkpoint");
    char path[TILE_PATH_SIZE], url[sizeof(v->checkpoint_url) + 64];
    struct buf body = {.max = 0};
    enum status rc;

    for (;;) {
        tree_tile_write(path, level, number, wide);
        snprintf(url, sizeof(url), "%.*stile/%s?%s", (int)prefix,
                 v->checkpoint_url, path, v->chain.epoch);
        rc = fetch_small(v, url, &body);
        if (rc != STATUS_REFUSED || wide == TILE_WIDTH)
            break;
        buf_fini(&body);
        wide = TILE_WIDTH; /* partial ones may go when that is there */
    }
    if (rc)
        problem_set(why, "%s", td_problem(v->client));
    else if (body.size != (size_t)wide * DIGEST_SIZE)
        rc = problem(why, STATUS_MALFORMED, "%.800s has %zu bytes", url,
                     body.size);
    else
        memcpy(hashes, body.data, (size_t)width * DIGEST_SIZE);
    buf_fini(&body);
    return rc;
}

/* Adds leaves that were read to the tree, up to that size. */
static enum status
add_leaves(struct verify *v, struct tree_edge *edge, uint64_t size,
           struct problem *why)
{
    struct digest hashes[TILE_WIDTH];

    while (edge->size < size) {
        uint64_t n = size - edge->size;

        if (n > TILE_WIDTH)
            n = TILE_WIDTH;
        if (pread(v->leaves_fd, hashes, n * DIGEST_SIZE,
                  (off_t)(edge->size * DIGEST_SIZE)) !=
            (ssize_t)(n * DIGEST_SIZE))
            return problem_errno(why, "cannot read", "a temporary file");
        for (uint64_t i = 0; i < n; i++)
            tree_edge_add(edge, &hashes[i]);
    }
    return STATUS_OK;
}

/* The roots differ. Sets *same to how many first leaves agree: the tree of the
 * tiles has that root. */
static enum status
find_difference(struct verify *v, const struct tree_tiles *tiles,
                const struct tree_edge *begin, const struct digest *root,
                uint64_t *same, struct problem *why)
{
    struct tree_edge theirs, ours;
    struct digest one, other;
    uint64_t low = begin->size, high = v->signed_size;
    enum status rc = tree_read_edge(tiles, high, &theirs, why);

    if (rc)
        return rc;
    tree_edge_root(&theirs, &one);
    if (!digest_is_equal(&one, root))
        return STATUS_MALFORMED; /* the tiles are of another tree */
    while (!rc && low + 1 < high) {
        uint64_t middle = low + (high - low) / 2;

        ours = *begin;
        rc = add_leaves(v, &ours, middle, why);
        if (!rc)
            rc = tree_read_edge(tiles, middle, &theirs, why);
        tree_edge_root(&ours, &one);
        tree_edge_root(&theirs, &other);
        if (digest_is_equal(&one, &other))
            low = middle;
        else
            high = middle;
    }
    *same = low;
    return rc;
}

static enum status
compare(struct verify *v, const struct checkpoint *checkpoint)
{
    const struct tree_tiles tiles = {read_tile, v};
    struct tree_edge begin = {.size = v->chain.after}, edge;
    struct problem why = {""};
    struct digest root;
    uint64_t same = 0;
    enum status rc = STATUS_OK;

    v->signed_size = checkpoint->size;
    if (checkpoint->size > v->chain.last)
        problem_set(&why,
                    "the checkpoint is of %" PRIu64 " entries, and the lists "
                    "end behind entry %" PRIu64,
                    checkpoint->size, v->chain.last);
    else if (checkpoint->size < begin.size)
        problem_set(&why,
                    "the checkpoint is of %" PRIu64 " entries, and the lists "
                    "begin behind entry %" PRIu64,
                    checkpoint->size, begin.size);
    else if (begin.size > 0 && !v->checkpoint_url[0])
        problem_set(&why,
                    "the lists begin behind entry %" PRIu64 ", and only the "
                    "broker has the tree of the entries before: verify its URL",
                    begin.size);
    if (why.text[0])
        return verify_breaks(v, v->checkpoint_name, v->chain.last, &why);
    if (begin.size > 0)
        rc = tree_read_edge(&tiles, begin.size, &begin, &why);
    edge = begin;
    if (!rc)
        rc = add_leaves(v, &edge, checkpoint->size, &why);
    if (rc)
        return client_fail(v->client, rc, "%s", why.text);
    tree_edge_root(&edge, &root);
    if (digest_is_equal(&root, &checkpoint->root))
        return STATUS_OK;
    problem_set(&why,
                "the entries 1 to %" PRIu64 " are not those that were "
                "signed",
                checkpoint->size);
    if (v->checkpoint_url[0] &&
        !find_difference(v, &tiles, &begin, &checkpoint->root, &same, NULL))
        problem_set(&why, "entry %" PRIu64 " is not the one that was signed",
                    same + 1);
    return verify_breaks(v, v->checkpoint_name, same, &why);
}

enum status
verify_signed(struct verify *v, struct slice bytes)
{
    struct td_client *client = v->client;
    struct checkpoint checkpoint;
    struct problem why = {""};
    struct note note;
    enum status rc = note_read(bytes, &note, &why);

    if (!rc)
        rc = trust_check(client->trust, &note, v->chain.epoch, &checkpoint,
                         &client->checkpoint, &why);
    if (rc) {
        client->checkpoint.origin[0] = '\0';
        return verify_breaks(v, v->checkpoint_name, v->chain.last, &why);
    }
    rc = compare(v, &checkpoint);
    if (rc)
        client->checkpoint.origin[0] = '\0';
    return rc;
}

/* Witnesses cosign a checkpoint some time after the broker has signed it: where
 * they are demanded, the last one that they have cosigned comes first. */
enum status
verify_fetch_checkpoint(struct verify *v, struct buf *body)
{
    char url[sizeof(v->checkpoint_url) + 16];
    enum status rc = STATUS_REFUSED;

    snprintf(v->checkpoint_name, sizeof(v->checkpoint_name), "%s",
             v->checkpoint_url);
    snprintf(url, sizeof(url), "%s?witnessed", v->checkpoint_url);
    if (v->client->trust && v->client->trust->required > 0)
        rc = fetch_small(v, url, body);
    if (rc != STATUS_REFUSED)
        return rc;
    buf_fini(body);
    problem_clear(&v->client->problem);
    return fetch_small(v, v->checkpoint_url, body);
}

/* Reads a small file. */
static enum status
read_small(struct verify *v, const char *path, struct buf *body)
{
    char *room = buf_room(body, body->max);
    ssize_t n = room ? file_read(AT_FDCWD, path, room, body->max) : -1;

    if (n < 0)
        return problem_errno(&v->client->problem, "cannot read", path);
    body->size = (size_t)n;
    return STATUS_OK;
}

enum status
verify_read_checkpoint(struct verify *v, const char *dir, struct buf *body)
{
    snprintf(v->checkpoint_name, sizeof(v->checkpoint_name), "%s/checkpoint",
             dir);
    if (access(v->checkpoint_name, F_OK))
        return client_fail(v->client, STATUS_DIFFERENT,
                           "%.800s is missing: nothing says that these entries "
                           "were signed",
                           v->checkpoint_name);
    return read_small(v, v->checkpoint_name, body);
}

/* Makes the leaf of a proof, of what its `extra` has. */
static enum status
make_leaf(struct verify *v, const struct tlog_proof *proof, char *bytes,
          struct digest *leaf, struct problem *why)
{
    long size = base64_decode(proof->extra, (unsigned char *)bytes);
    struct fragment_view view;
    enum status rc;

    if (size <= DIGEST_SIZE)
        return problem(why, STATUS_DIFFERENT,
                       "it lacks its entry, which the broker did not have any "
                       "more");
    memcpy(v->chain.digest.bytes, bytes, DIGEST_SIZE);
    v->chain.after = v->chain.last = proof->index;
    v->chain.from_us = v->chain.last_us = DATETIME_NONE;
    rc = list_chain_add(
        &v->chain,
        (struct slice){bytes + DIGEST_SIZE, (size_t)size - DIGEST_SIZE}, &view,
        why);
    if (rc)
        return rc;
    tree_leaf(leaf, &v->chain.digest);
    bytes[DIGEST_SIZE + view.size] = '\0';
    slice_copy(v->loc, sizeof(v->loc), view.loc);
    return STATUS_OK;
}

enum status
verify_proof(struct verify *v, const char *where, struct slice bytes)
{
    struct td_client *client = v->client;
    struct checkpoint checkpoint;
    struct problem why = {""};
    struct tlog_proof proof;
    struct digest leaf;
    char *room = NULL;
    struct slice epoch;
    enum status rc = tlog_proof_read(bytes, &proof, &why);

    if (!rc)
        rc = checkpoint_read(&proof.note, &checkpoint, &why);
    if (!rc) {
        epoch = checkpoint.origin;
        if (epoch.size > EPOCH_SIZE)
            slice_skip(&epoch, epoch.size - EPOCH_SIZE);
        slice_copy(v->chain.epoch, sizeof(v->chain.epoch), epoch);
        room = memory_new(1, BASE64_ROOM(proof.extra) + 1);
        rc = make_leaf(v, &proof, room, &leaf, &why);
    }
    if (!rc)
        rc = trust_check(client->trust, &proof.note, v->chain.epoch,
                         &checkpoint, &client->checkpoint, &why);
    if (!rc && !tree_includes(proof.index, checkpoint.size, &leaf, &proof.path,
                              &checkpoint.root))
        rc = problem(&why, STATUS_DIFFERENT,
                     "its hashes do not lead from the entry to the root of "
                     "the checkpoint");
    if (rc) {
        client->checkpoint.origin[0] = '\0';
        rc = verify_breaks(v, where, v->chain.after, &why);
    } else {
        verify_holds(v, v->loc);
    }
    free(room);
    return rc;
}

enum status
verify_proof_file(struct verify *v, const char *path)
{
    struct buf body = {.max = PROOF_MAX};
    enum status rc = read_small(v, path, &body);

    if (!rc)
        rc = verify_evidence(v, path, buf_slice(&body));
    if (rc == STATUS_NOT_FOUND)
        rc = verify_proof(v, path, buf_slice(&body));
    buf_fini(&body);
    return rc;
}

enum status
verify_fetch_proof(struct verify *v, uint64_t seq, struct buf *body)
{
    char url[sizeof(v->checkpoint_url) + 32];
    enum status rc;

    snprintf(url, sizeof(url), "%.*sproof?seq=%" PRIu64,
             (int)(strlen(v->checkpoint_url) - strlen("checkpoint")),
             v->checkpoint_url, seq);
    rc = fetch_small(v, url, body);
    if (!rc)
        rc = verify_proof(v, url, buf_slice(body));
    if (!rc && v->chain.last != seq)
        rc = client_fail(v->client, STATUS_DIFFERENT,
                         "%.800s: it is the proof of entry %" PRIu64, url,
                         v->chain.last);
    return rc;
}
