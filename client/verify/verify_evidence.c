/*
 * verify_evidence.c - judges what a follower keeps of a broker that shows it
 * another history than it has signed: a file that convinces whoever has
 * the verifier key, without asking anybody.
 *
 *     the checkpoint before, or EPOCH-SEQ DIGEST of an entry that came
 *                          (an empty line)
 *     the later checkpoint
 *                          (an empty line)
 *     the root that its tree has for the size of the one before, or its leaf
 *                          (an empty line)
 *     the way from there to its root, and an empty line
 *
 * Two checkpoints of one size, or a later one that is smaller, need no way.
 */
#include "client/lib/trust.h"
#include "client/verify/verify.h"

/* One of the two signed texts. */
struct statement {
    struct note note;
    struct checkpoint checkpoint;
    struct td_checkpoint result;
};

/* Takes a note: its text, an empty line, its signatures, and an empty line
 * unless it is the last thing. False: there is none. */
static bool
take_note(struct slice *rest, struct note *note)
{
    struct slice bytes = *rest;

    if (!slice_skip_past(rest, "\n\n"))
        return false;
    if (slice_skip_past(rest, "\n\n"))
        bytes.size = (size_t)(rest->data - bytes.data) - 1;
    else
        slice_skip(rest, rest->size);
    return !note_read(bytes, note, NULL);
}

/* "EPOCH-SEQ sha-256:..." and an empty line. */
static bool
take_place(struct slice *rest, struct position *at, struct digest *digest)
{
    struct slice copy = *rest, line = slice_take(&copy, '\n');
    struct slice position = slice_take(&line, ' ');

    if (position_read(position, at) || !at->epoch[0] || at->seq == 0 ||
        digest_read(line, digest) || !slice_skip_start(&copy, "\n"))
        return false;
    *rest = copy;
    return true;
}

/* What the later tree has instead, and the way from there to its root. */
static bool
take_way(struct slice *rest, struct digest *instead, struct tree_path *path)
{
    struct tree_path one;

    if (!tree_path_take(rest, &one) || one.n != 1)
        return false;
    *instead = one.hashes[0];
    return tree_path_take(rest, path) && rest->size == 0;
}

static enum status
check_statement(const struct verify *v, struct statement *s,
                struct problem *why)
{
    enum status rc = checkpoint_read(&s->note, &s->checkpoint, why);
    struct slice epoch = s->checkpoint.origin;
    char name[EPOCH_SIZE + 1];

    if (rc)
        return rc;
    if (epoch.size > EPOCH_SIZE)
        slice_skip(&epoch, epoch.size - EPOCH_SIZE);
    slice_copy(name, sizeof(name), epoch);
    return trust_check(v->client->trust, &s->note, name, &s->checkpoint,
                       &s->result, why);
}

/* Do two signed trees contradict each other? */
static bool
differ(const struct statement *before, const struct statement *later,
       struct slice rest)
{
    const struct checkpoint *a = &before->checkpoint, *b = &later->checkpoint;
    struct tree_path path;
    struct digest instead;

    if (!slice_equal(a->origin, b->origin))
        return false;
    if (a->size == b->size)
        return !digest_is_equal(&a->root, &b->root);
    if (a->size > b->size)
        return later->result.time_s > before->result.time_s;
    return take_way(&rest, &instead, &path) &&
           !digest_is_equal(&instead, &a->root) &&
           tree_continues(a->size, &instead, b->size, &b->root, &path);
}

/* Has the signed tree another entry than the one that came? */
static bool
lacks_entry(const struct position *at, const struct digest *digest,
            const struct checkpoint *later, struct slice rest)
{
    struct digest leaf, instead;
    struct tree_path path;

    tree_leaf(&leaf, digest);
    return slice_ends(later->origin, at->epoch) && at->seq <= later->size &&
           take_way(&rest, &instead, &path) &&
           !digest_is_equal(&instead, &leaf) &&
           tree_includes(at->seq - 1, later->size, &instead, &path,
                         &later->root);
}

enum status
verify_evidence(struct verify *v, const char *where, struct slice bytes)
{
    struct statement before = {.result.size = 0}, later = {.result.size = 0};
    struct td_client *client = v->client;
    struct problem why = {""};
    struct slice rest = bytes;
    struct digest digest;
    struct position at;
    bool is_place = take_place(&rest, &at, &digest);
    enum status rc = STATUS_OK;

    if ((!is_place && !take_note(&rest, &before.note)) ||
        !take_note(&rest, &later.note))
        return STATUS_NOT_FOUND;
    if (!client->trust || client->trust->n_keys == 0)
        return client_fail(client, STATUS_INVALID,
                           "%.800s is evidence, which the verifier key of the "
                           "log decides: --key names it",
                           where);
    if (!is_place)
        rc = check_statement(v, &before, &why);
    if (!rc)
        rc = check_statement(v, &later, &why);
    if (!rc && !(is_place ? lacks_entry(&at, &digest, &later.checkpoint, rest)
                          : differ(&before, &later, rest)))
        rc = problem(&why, STATUS_DIFFERENT,
                     "what it has does not contradict itself");
    if (rc)
        return verify_breaks(v, where, 0, &why);
    if (is_place)
        return client_fail(client, STATUS_REWOUND,
                           "%.800s: the holder of the key of %s has signed "
                           "another entry %" PRIu64 " than the one with %s",
                           where, later.result.origin, at.seq,
                           digest_text(&digest).text);
    return client_fail(client, STATUS_REWOUND,
                       "%.800s: the holder of the key of %s has signed two "
                       "histories: of %" PRIu64 " and of %" PRIu64 " entries",
                       where, later.result.origin, before.checkpoint.size,
                       later.checkpoint.size);
}
