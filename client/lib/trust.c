#include "client/lib/trust.h"

#include "base/clock.h"
#include "client/lib/client.h"
#include "proto/input/list_proof.h"

/* A checkpoint may be dated so many seconds ahead of this clock: two clocks
 * differ. */
#define AHEAD_MAX_S 300

/* Reads the keys of a text; NULL: there are none. A text without a key is an
 * error, or a file that was emptied would turn the checks off. */
static enum status
read_keys(struct note_key *keys, size_t *n, const char *text, bool are_logs,
          struct problem *why)
{
    struct slice rest = slice_of(text ? text : "");

    *n = 0;
    while (rest.size > 0) {
        struct slice line = slice_without_spaces(slice_take(&rest, '\n'));
        enum status rc;

        if (line.size == 0 || line.data[0] == '#')
            continue;
        if (*n == TRUST_KEYS_MAX)
            return problem(why, STATUS_INVALID, "there are more than %d keys",
                           TRUST_KEYS_MAX);
        rc = note_key_read(line, &keys[*n], why);
        if (rc)
            return rc;
        if (are_logs != (keys[*n].kind == NOTE_SIGNATURE))
            return problem(why, STATUS_INVALID,
                           "%s: this is the key of a %s, and that of a %s is "
                           "wanted",
                           keys[*n].name, are_logs ? "witness" : "log",
                           are_logs ? "log" : "witness");
        ++*n;
    }
    return *n > 0 || !text
               ? STATUS_OK
               : problem(why, STATUS_INVALID,
                         "it has no key of a %s: NAME+HEX+BASE64, a line each",
                         are_logs ? "log" : "witness");
}

/* True if no witness before that one has its key: whoever holds a key counts
 * once, whatever the names. `counts`: of those; NULL: of all. */
static bool
is_another(const struct trust *t, const bool *counts, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if ((!counts || counts[j]) &&
            !memcmp(t->witnesses[j].public, t->witnesses[i].public,
                    SIGNING_KEY_SIZE))
            return false;
    return true;
}

static enum status
read_trust(struct trust *t, const char *keys, const char *witnesses,
           unsigned required, struct problem *why)
{
    enum status rc = read_keys(t->keys, &t->n_keys, keys, true, why);
    unsigned n = 0;

    if (!rc)
        rc = read_keys(t->witnesses, &t->n_witnesses, witnesses, false, why);
    for (size_t i = 0; i < t->n_witnesses; i++)
        n += is_another(t, NULL, i);
    t->required = required > 0 ? required : n;
    return !rc && required > n
               ? problem(why, STATUS_INVALID,
                         "%u witnesses are required, and the keys of %u are "
                         "known",
                         required, n)
               : rc;
}

/* "Up to now there were no other entries" cannot be said of a time to come. */
static enum status
refuse_ahead(const char *name, int64_t time_s, struct problem *why)
{
    return problem(why, STATUS_DIFFERENT,
                   "the checkpoint of %s is dated %s, and this machine's clock "
                   "is more than %d minutes behind that",
                   name, datetime_text_short(time_s * 1000000).text,
                   AHEAD_MAX_S / 60);
}

/* Checks the signature of the log, and the time that it adds: that of its own.
 */
static enum status
check_log(const struct trust *t, const struct note *note, struct slice origin,
          int64_t *time_s, struct problem *why)
{
    enum status rc = STATUS_NOT_FOUND;
    uint64_t time;

    for (size_t i = 0; rc == STATUS_NOT_FOUND && i < t->n_keys; i++) {
        struct note_key key = t->keys[i], cosigner = note_cosigner(&key, false),
                        former = note_cosigner(&key, true);

        if (!slice_is(origin, key.name))
            continue;
        rc = note_check(note, &key, &time, why);
        if (rc)
            continue;
        rc = note_check(note, &cosigner, &time, why);
        if (rc == STATUS_NOT_FOUND)
            rc = note_check(note, &former, &time, why);
        *time_s = (int64_t)time;
        if (rc == STATUS_NOT_FOUND) /* a line of it may have been cut off */
            return problem(why, STATUS_DIFFERENT,
                           "the key of %s has signed no time of the checkpoint",
                           key.name);
        if (!rc && *time_s > clock_now_us() / 1000000 + AHEAD_MAX_S)
            rc = refuse_ahead(key.name, *time_s, why);
    }
    for (size_t i = 0; rc == STATUS_NOT_FOUND && i < t->n_keys; i++) {
        struct note_key key = t->keys[i];

        if (strlen(key.name) != origin.size || origin.size < EPOCH_SIZE ||
            memcmp(key.name, origin.data, origin.size - EPOCH_SIZE) != 0)
            continue;
        slice_copy(key.name, sizeof(key.name), origin);
        if (!note_check(note, &key, &time, why))
            return problem(why, STATUS_DIFFERENT,
                           "%s is a new log, signed by the same key as %s: "
                           "give its own line, of tidingsd key show",
                           key.name, t->keys[i].name);
    }
    if (rc == STATUS_NOT_FOUND)
        return problem(why, STATUS_DIFFERENT,
                       "no known key has signed the checkpoint of %.*s",
                       SLICE_ARG(origin));
    return rc;
}

enum status
trust_check(const struct trust *t, const struct note *note, const char *epoch,
            struct checkpoint *checkpoint, struct td_checkpoint *result,
            struct problem *why)
{
    static const struct trust nobody = {.n_keys = 0};
    bool has_cosigned[TRUST_KEYS_MAX];
    enum status rc = checkpoint_read(note, checkpoint, why);
    struct slice name;

    if (rc)
        return rc;
    if (!t)
        t = &nobody;
    *result = (struct td_checkpoint){.size = checkpoint->size};
    slice_copy(result->origin, sizeof(result->origin), checkpoint->origin);
    digest_write(result->root, &checkpoint->root);
    name = list_name(result->origin);
    if (!slice_is(name, epoch))
        return problem(why, STATUS_DIFFERENT,
                       "the checkpoint is of the log %s, and not of the epoch "
                       "%s",
                       result->origin, epoch);
    if (t->n_keys > 0)
        rc = check_log(t, note, checkpoint->origin, &result->time_s, why);
    result->is_signed = !rc && t->n_keys > 0;
    for (size_t i = 0; !rc && i < t->n_witnesses; i++) {
        struct problem reason = {""};
        uint64_t time;
        enum status one = note_check(note, &t->witnesses[i], &time, &reason);

        if (one == STATUS_DIFFERENT)
            rc = problem(why, one, "%s", reason.text);
        has_cosigned[i] = !one;
        result->n_witnesses += !one && is_another(t, has_cosigned, i);
    }
    if (!rc && result->n_witnesses < t->required)
        rc = problem(why, STATUS_DIFFERENT,
                     "the checkpoint of %s has cosignatures of %u known "
                     "witnesses, and %u are required",
                     result->origin, result->n_witnesses, t->required);
    return rc;
}

/* Is the checkpoint dated before the last one, or in the same second? It says
 * nothing of later times, so it may be smaller. */
static bool
is_dated_before(const struct trust_progress *p, const struct note *kept,
                int64_t time_s)
{
    struct checkpoint then;
    struct td_checkpoint result;
    struct problem unused;

    return time_s > 0 &&
           !trust_check(p->trust, kept, p->epoch, &then, &result, &unused) &&
           time_s <= result.time_s;
}

/* A cache or a broken disk may have altered these tiles: they prove nothing. */
static enum status
blame_tiles(struct problem *why)
{
    return problem(why, STATUS_UNREACHABLE,
                   "its tiles do not lead to its root");
}

/* Adds what the tree has instead, and the way from there to its root. */
static void
add_proof(const struct trust_progress *p, const struct digest *instead,
          const struct tree_path *path)
{
    const struct tree_path one = {.n = 1, .hashes = {*instead}};

    if (!p->proof)
        return;
    tree_path_write(p->proof, &one);
    tree_path_write(p->proof, path);
}

/* Does the tree continue that of the last checkpoint? */
static enum status
compare_trees(const struct trust_progress *p, const struct checkpoint *now,
              const struct checkpoint *kept, bool is_older, struct problem *why)
{
    struct tree_path path;
    struct tree_edge edge;
    struct digest other;
    enum status rc;

    if (now->size < kept->size)
        return problem(why, is_older ? STATUS_UNREACHABLE : STATUS_REWOUND,
                       "it had %" PRIu64 " entries, and has %" PRIu64 "%s",
                       kept->size, now->size,
                       is_older ? ": an older checkpoint, as of a broker that "
                                  "is behind another"
                                : "");
    if (kept->size == 0)
        return STATUS_OK;
    rc = tree_consistency(&p->tiles, kept->size, now->size, &path, why);
    if (!rc && now->size == kept->size &&
        !digest_is_equal(&kept->root, &now->root))
        return problem(why, STATUS_REWOUND,
                       "it has another root than before for the same %" PRIu64
                       " entries",
                       now->size);
    if (rc ||
        tree_continues(kept->size, &kept->root, now->size, &now->root, &path))
        return rc;
    rc = tree_read_edge(&p->tiles, kept->size, &edge, why);
    if (rc)
        return rc;
    tree_edge_root(&edge, &other);
    if (!tree_continues(kept->size, &other, now->size, &now->root, &path))
        return blame_tiles(why);
    add_proof(p, &other, &path);
    return problem(why, STATUS_REWOUND,
                   "its %" PRIu64 " entries do not continue the first "
                   "%" PRIu64 " that it had",
                   now->size, kept->size);
}

/* Does the tree have the history that came? */
static enum status
compare_history(const struct trust_progress *p, const struct checkpoint *now,
                struct problem *why)
{
    uint64_t index = p->seq - 1;
    unsigned place = (unsigned)(index % TILE_WIDTH);
    struct digest leaf, hashes[TILE_WIDTH];
    struct tree_path path;
    enum status rc;

    if (!p->digest || p->seq == 0 || p->seq > now->size)
        return STATUS_OK;
    rc = tree_inclusion(&p->tiles, index, now->size, &path, why);
    tree_leaf(&leaf, p->digest);
    if (rc || tree_includes(index, now->size, &leaf, &path, &now->root))
        return rc;
    rc =
        p->tiles.read(&p->tiles, 0, index / TILE_WIDTH, place + 1, hashes, why);
    if (rc)
        return rc;
    if (!tree_includes(index, now->size, &hashes[place], &path, &now->root))
        return blame_tiles(why);
    add_proof(p, &hashes[place], &path);
    return problem(why, STATUS_REWOUND,
                   "its entry %" PRIu64 " is not the one that came", p->seq);
}

enum status
trust_progress(const struct trust_progress *p, struct slice bytes,
               struct td_checkpoint *result, const char **fault,
               struct problem *why)
{
    struct checkpoint now, before = {.size = 0};
    struct note note, kept;
    enum status rc;

    result->origin[0] = '\0';
    if (p->kept.size > 0 && (note_read(p->kept, &kept, why) ||
                             checkpoint_read(&kept, &before, why)))
        return problem_prefix(why, STATUS_INVALID, "the last checkpoint: ");
    *fault = "malformed";
    rc = note_read(bytes, &note, why);
    if (!rc)
        rc = checkpoint_read(&note, &now, why);
    if (rc)
        return why->rc = rc == STATUS_MALFORMED ? STATUS_DIFFERENT : rc;
    if (p->kept.size > 0 && !slice_equal(before.origin, now.origin))
        before.size = 0;
    rc = trust_check(p->trust, &note, p->epoch, &now, result, why);
    *fault = !slice_is(list_name(result->origin), p->epoch) ? "origin"
             : result->is_signed                            ? "witnesses"
                                                            : "signature";
    if (!rc) {
        *p->size = now.size;
        *fault = now.size < before.size    ? "smaller"
                 : now.size == before.size ? "root"
                                           : "inconsistent";
        rc = compare_trees(p, &now, &before,
                           now.size < before.size &&
                               is_dated_before(p, &kept, result->time_s),
                           why);
    }
    if (!rc) {
        *fault = "digest";
        rc = compare_history(p, &now, why);
    }
    if (rc)
        result->origin[0] = '\0';
    return rc;
}

enum td_status
td_trust(struct td_client *client, const char *keys, const char *witnesses,
         unsigned required)
{
    struct trust *trust = memory_new(1, sizeof(*trust));
    enum status rc;

    client_begin(client);
    rc = trust ? read_trust(trust, keys, witnesses, required, &client->problem)
               : problem_memory(&client->problem);
    if (rc) {
        free(trust);
    } else {
        free(client->trust);
        client->trust = trust;
    }
    return client_end(client, rc);
}

void
td_key_lag(struct td_client *client, unsigned lag_ms)
{
    client->key_lag_ms = lag_ms;
}

const struct td_checkpoint *
td_checkpoint(struct td_client *client)
{
    return client->checkpoint.origin[0] ? &client->checkpoint : NULL;
}

enum td_status
td_keep_checkpoints(struct td_client *client, const char *path)
{
    char *copy = path ? strdup(path) : NULL;

    client_begin(client);
    if (path && !copy)
        return client_end(client, problem_memory(&client->problem));
    free(client->checkpoint_path);
    client->checkpoint_path = copy;
    client->checks = true;
    return client_end(client, STATUS_OK);
}

enum td_status
td_on_checkpoint(struct td_client *client, const char *kept,
                 td_checkpoint_fn *on_checkpoint, void *user)
{
    char *copy = kept ? strdup(kept) : NULL;

    client_begin(client);
    if (kept && !copy)
        return client_end(client, problem_memory(&client->problem));
    free(client->checkpoint_kept);
    client->checkpoint_kept = copy;
    client->on_checkpoint = on_checkpoint;
    client->checkpoint_user = user;
    return client_end(client, STATUS_OK);
}
