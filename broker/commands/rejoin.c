#include "broker/commands/rejoin.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/access/checkpoint_keys.h"
#include "broker/backup/backup_fetch.h"
#include "broker/base/metrics.h"
#include "broker/journal/pg_cluster.h"
#include "broker/log/kept_records.h"
#include "broker/sources/peer_tokens.h"
#include "broker/store/segments.h"
#include "broker/store/store.h"

/* REJOIN_OLD before it has all files of the old copy. */
#define OLD_BEGUN REJOIN_OLD ".new"

struct rejoin {
    const struct config *config;
    bool (*should_stop)(void *user);
    void *user;
    char path[PATH_MAX]; /* of REJOIN_NEW */
    int fd, lock;        /* of the data directory; -1: none */
};

static bool
has(const struct rejoin *r, const char *name)
{
    return !faccessat(r->fd, name, F_OK, 0);
}

/* Is it needed? */

/* Why the journal cannot continue the copy: STATUS_GONE, it is older or not
 * there yet; STATUS_DIFFERENT, it has another history. A journal that ends
 * before the copy has lost records, which the copy may give back. The start of
 * the broker reports all other faults. */
static enum status
look_at_copy(const struct rejoin *r, struct journal_place *place,
             struct problem *reason)
{
    const struct pg_options options =
        pg_options_of(r->config->cluster, r->config->cluster_durable_by);

    *place = (struct journal_place){.n = 0};
    if (has(r, "tidings.db") &&
        (store_read_place(r->config->data, place, reason) ||
         !journal_place_is_set(place)))
        return STATUS_OK;
    return pg_cluster_check(&options, place, reason);
}

/* Fetching */

static void
note_missing(const char *text, void *user)
{
    (void)user;
    DIAG(DIAG_WARNING, "cluster", "the backup of the other broker lacks a file",
         diag_text("file", text));
}

/* Moving */

/* True for a name of a copy: others in the data directory are the operator's,
 * or of this process. */
static bool
is_of_copy(const char *name)
{
    static const char *const names[] = {"sets",
                                        "uploads",
                                        "arriving",
                                        SEGMENTS_FOLDER,
                                        KEPT_RECORDS_EARLIER,
                                        KEPT_RECORDS_LATEST,
                                        CHECKPOINT_KEYS_FILE,
                                        "public-url"};
    static const char *const ends[] = {".db", ".db-wal", ".db-shm",
                                       ".db-journal"};

    for (size_t i = 0; i < N_ELEMENTS(names); i++)
        if (!strcmp(name, names[i]))
            return true;
    for (size_t i = 0; i < N_ELEMENTS(ends); i++)
        if (slice_ends(slice_of(name), ends[i]))
            return true;
    return false;
}

/* Moves all names of a copy from one folder to another, durably. */
static enum status
move_copy(int from, int to, struct problem *why)
{
    DIR *dir = file_open_dir(from, ".", 0);
    const struct dirent *entry;
    enum status rc = STATUS_OK;

    if (!dir)
        return problem_errno(why, "cannot read", "the data directory");
    while (!rc && (entry = file_next(dir)))
        if (is_of_copy(entry->d_name) &&
            renameat(from, entry->d_name, to, entry->d_name))
            rc = problem_errno(why, "cannot move", entry->d_name);
    closedir(dir);
    if (!rc)
        rc = file_sync_dir(to, why);
    return rc ? rc : file_sync_dir(from, why);
}

static enum status
replace(struct rejoin *r, struct problem *why)
{
    int from = -1, to = -1;
    enum status rc = STATUS_OK;

    /* The old copy leaves; REJOIN_OLD says that all of it has. */
    if (!has(r, REJOIN_OLD)) {
        if (mkdirat(r->fd, OLD_BEGUN, S_IRWXU) && errno != EEXIST)
            return problem_errno(why, "cannot create", OLD_BEGUN);
        rc = file_open_folder(r->fd, OLD_BEGUN, &to, why);
        if (!rc)
            rc = move_copy(r->fd, to, why);
        if (!rc && renameat(r->fd, OLD_BEGUN, r->fd, REJOIN_OLD))
            rc = problem_errno(why, "cannot rename", OLD_BEGUN);
        file_close(&to);
        if (!rc)
            rc = file_sync_dir(r->fd, why);
    }
    if (!rc)
        rc = file_open_folder(r->fd, REJOIN_NEW, &from, why);
    if (!rc)
        rc = move_copy(from, r->fd, why);
    file_close(&from);
    if (!rc)
        rc = file_clear(r->fd, REJOIN_NEW, NULL, why);
    if (!rc && unlinkat(r->fd, STORE_RESTORING, 0))
        rc = problem_errno(why, "cannot remove", STORE_RESTORING);
    if (!rc) {
        (void)unlinkat(r->fd, REJOIN_OLD, AT_REMOVEDIR); /* if it is empty */
        rc = file_sync_dir(r->fd, why);
    }
    if (!rc) {
        metrics_add(METRIC_CLUSTER_JOINS, 1);
        DIAG(DIAG_WARNING, "cluster",
             "this broker has joined the cluster anew; delete its former files "
             "when nobody misses them",
             diag_text("from", r->config->cluster_from),
             diag_text("former", has(r, REJOIN_OLD) ? REJOIN_OLD : "none"));
    }
    return rc;
}

/* The whole */

static void
warn(const char *reason)
{
    DIAG(DIAG_WARNING, "cluster", "this broker cannot join anew",
         diag_text("error", reason));
}

static enum status
rejoin(struct rejoin *r, struct problem *why)
{
    struct backup_fetch fetch = {
        .url = r->config->cluster_from,
        .token_file = "",
        .ca_file = r->config->ca_file,
        .path = r->path,
        .on_missing = note_missing,
        .is_stopped = r->should_stop,
        .user = r->user,
        .authorization = peer_tokens_header,
        .peer_tokens = r->config->peer_tokens,
    };
    const struct pg_options options =
        pg_options_of(r->config->cluster, r->config->cluster_durable_by);
    struct problem reason = {""};
    struct journal_place place;
    bool is_given_up;
    enum status rc;

    if (has(r, REJOIN_NEW) && has(r, STORE_RESTORING))
        return replace(r, why); /* a crash cut it off */
    rc = file_clear(r->fd, REJOIN_NEW, NULL, why);
    if (rc)
        return rc;
    rc = look_at_copy(r, &place, &reason);
    is_given_up = rc == STATUS_DIFFERENT;
    if (rc != STATUS_GONE && !is_given_up)
        return STATUS_OK;
    if (has(r, REJOIN_OLD)) {
        warn("the former files of an earlier time are in " REJOIN_OLD
             ": delete them first");
        return STATUS_OK;
    }
    DIAG(DIAG_WARNING, "cluster",
         "this broker fetches the backup of another one",
         diag_text("from", r->config->cluster_from),
         diag_text("reason", reason.text));
    rc = backup_fetch(&fetch, &reason);
    if (!rc)
        rc = store_read_place(r->path, &place, &reason);
    if (!rc) /* the journal must continue it */
        rc = pg_cluster_check(&options, &place, &reason);
    if (!rc && is_given_up)
        rc = pg_cluster_begin_epochs(&options, &place, &reason);
    new_data_close(&fetch.data, rc);
    if (rc == STATUS_STOPPED)
        return problem(why, rc, "%s", reason.text);
    if (rc) {
        warn(reason.text);
        return STATUS_OK;
    }
    rc = file_store(r->fd, STORE_RESTORING, "", why);
    return rc ? rc : replace(r, why);
}

enum status
rejoin_if_needed(const struct config *config, bool (*should_stop)(void *user),
                 void *user, struct problem *why)
{
    struct rejoin r = {.config = config,
                       .should_stop = should_stop,
                       .user = user,
                       .fd = -1,
                       .lock = -1};
    enum status rc;

    if (!config->cluster_from[0])
        return STATUS_OK;
    if ((size_t)snprintf(r.path, sizeof(r.path), "%s/" REJOIN_NEW,
                         config->data) >= sizeof(r.path))
        return problem(why, STATUS_INVALID, "%s is too long a name",
                       config->data);
    rc = file_make_dirs(config->data, why);
    if (!rc)
        rc = file_lock(config->data, &r.lock, why);
    if (rc)
        return rc;
    rc = file_open_folder(AT_FDCWD, config->data, &r.fd, why);
    if (!rc)
        rc = rejoin(&r, why);
    file_close(&r.fd);
    file_close(&r.lock);
    return rc;
}
