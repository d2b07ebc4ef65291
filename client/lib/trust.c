#include "client/lib/trust.h"

#include "client/lib/client.h"
#include "proto/input/list_proof.h"

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
    return STATUS_OK;
}

static enum status
read_trust(struct trust *t, const char *keys, const char *witnesses,
           unsigned required, struct problem *why)
{
    enum status rc = read_keys(t->keys, &t->n_keys, keys, true, why);

    if (!rc)
        rc = read_keys(t->witnesses, &t->n_witnesses, witnesses, false, why);
    t->required = required > 0 ? required : (unsigned)t->n_witnesses;
    return !rc && required > t->n_witnesses
               ? problem(why, STATUS_INVALID,
                         "%u witnesses are required, and the keys of %zu are "
                         "known",
                         required, t->n_witnesses)
               : rc;
}

/* Checks the signature of the log; the time that it adds is its own. */
static enum status
check_log(const struct trust *t, const struct note *note, struct slice origin,
          int64_t *time_s, struct problem *why)
{
    enum status rc = STATUS_NOT_FOUND;
    uint64_t time;

    for (size_t i = 0; rc == STATUS_NOT_FOUND && i < t->n_keys; i++) {
        struct note_key key = t->keys[i];

        if (!slice_is(origin, key.name))
            continue;
        rc = note_check(note, &key, &time, why);
        key.kind = NOTE_COSIGNATURE;
        if (rc)
            continue;
        rc = note_check(note, &key, &time, why);
        *time_s = (int64_t)time;
        if (rc == STATUS_NOT_FOUND) /* it says nothing about the time */
            return STATUS_OK;
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
        result->n_witnesses += !one;
    }
    if (!rc && result->n_witnesses < t->required)
        rc = problem(why, STATUS_DIFFERENT,
                     "the checkpoint of %s has cosignatures of %u known "
                     "witnesses, and %u are required",
                     result->origin, result->n_witnesses, t->required);
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

const struct td_checkpoint *
td_checkpoint(struct td_client *client)
{
    return client->checkpoint.origin[0] ? &client->checkpoint : NULL;
}
