#include "broker/backup/backup_offer.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/thread.h"
#include "broker/backup/backup.h"
#include "broker/backup/manifest.h"
#include "broker/backup/tar_body.h"
#include "broker/base/authority.h"
#include "broker/base/diag.h"

/* How often the thread looks whether a backup may still be fetched. */
#define LOOK_US 1000000

enum state { NONE, MAKING, READY, SENDING, SENT, FAILED };

struct backup_offer {
    char data[PATH_MAX], dir[PATH_MAX];
    int data_fd;
    struct thread thread; /* of `making`, `sent`; READY for too long */

    pthread_mutex_t mutex; /* the rest */
    bool has_thread, is_stopped;
    struct authority *authority; /* of whoever asked; a reference, or NULL */
    enum state state;
    int64_t until_us;     /* READY; steady clock */
    enum status failure;  /* FAILED */
    struct problem why;   /* likewise */
    struct tar_list list; /* READY, SENDING */
};

/* The thread */

/* The mutex is held. */
static bool
is_denied(const struct backup_offer *o)
{
    return authority_is_over(o->authority, clock_now_us());
}

/* A backup that nobody may fetch any more counts as sent. The mutex is held. */
static enum state
look_at_state(struct backup_offer *o)
{
    if (o->state == READY && (clock_steady_us() >= o->until_us || is_denied(o)))
        o->state = SENT;
    return o->state;
}

static enum state
state_of(struct backup_offer *o)
{
    enum state state;

    pthread_mutex_lock(&o->mutex);
    state = look_at_state(o);
    pthread_mutex_unlock(&o->mutex);
    return state;
}

static void
on_missing(const char *text, void *user)
{
    (void)user;
    DIAG(DIAG_WARNING, "backup", "a file is missing in a backup for a client",
         diag_text("file", text));
}

static bool
is_stopped(void *user)
{
    struct backup_offer *o = user;
    bool is;

    pthread_mutex_lock(&o->mutex);
    is = o->is_stopped || is_denied(o);
    pthread_mutex_unlock(&o->mutex);
    return is;
}

static enum status
add_file(const struct manifest_file *file, void *user, struct problem *why)
{
    struct backup_offer *o = user;
    char path[MANIFEST_FOLDER_SIZE + MANIFEST_PATH_MAX + 1];

    snprintf(path, sizeof(path), MANIFEST_FILE, file->folder, file->path);
    return tar_list_add(&o->list, path, why);
}

/* A failure waits for the client that asks. */
static void
run_make(struct backup_offer *o)
{
    struct backup_job job = {
        .data = o->data,
        .dir = o->dir,
        .on_missing = on_missing,
        .is_stopped = is_stopped,
        .user = o,
    };
    const struct manifest_reader reader = {.on_file = add_file, .user = o};
    struct problem why = {""};
    enum status rc;

    tar_list_fini(&o->list);
    rc = file_clear(o->data_fd, OFFER_FOLDER, NULL, &why);
    if (!rc)
        rc = file_make_dir(o->data_fd, OFFER_FOLDER, &why);
    if (!rc)
        rc = backup_make(&job, &why);
    if (!rc)
        rc = tar_list_add(&o->list, MANIFEST_NAME, &why);
    if (!rc)
        rc = manifest_read(o->dir, &reader, &why);
    if (rc) {
        tar_list_fini(&o->list);
        (void)!file_clear(o->data_fd, OFFER_FOLDER, NULL, NULL);
        DIAG(DIAG_WARNING, "backup", "a backup for a client failed",
             diag_text("error", why.text));
    } else {
        DIAG(DIAG_INFO, "backup", "a backup for a client is ready",
             diag_number("bytes", o->list.bytes));
    }
    pthread_mutex_lock(&o->mutex);
    o->failure = rc;
    o->why = why;
    o->until_us = clock_steady_us() + OFFER_US;
    o->state = authority_check(o->authority, clock_now_us(), NULL) ? SENT
               : rc                                                ? FAILED
                                                                   : READY;
    pthread_mutex_unlock(&o->mutex);
}

static void
run(struct thread *t)
{
    struct backup_offer *o = t->user;
    struct problem why = {""};
    int64_t wait_us = -1;

    thread_lower_priority();
    do {
        enum state state = state_of(o);

        if (state == MAKING)
            run_make(o);
        if (state == SENT) {
            tar_list_fini(&o->list);
            if (file_clear(o->data_fd, OFFER_FOLDER, NULL, &why))
                DIAG(DIAG_WARNING, "backup", "a sent backup cannot be deleted",
                     diag_text("error", why.text));
            pthread_mutex_lock(&o->mutex);
            if (o->state == SENT) /* not if the next one is wanted */
                o->state = NONE;
            pthread_mutex_unlock(&o->mutex);
        }
        state = state_of(o);
        wait_us = state == READY ? LOOK_US : state == SENT ? 0 : -1;
    } while (thread_wait(t, wait_us));
}

/* Other threads */

enum status
backup_offer_open(struct backup_offer **offer, const char *data,
                  struct problem *why)
{
    struct backup_offer *o = memory_new(1, sizeof(*o));
    enum status rc = file_open_folder(AT_FDCWD, data, &o->data_fd, why);

    *offer = NULL;
    pthread_mutex_init(&o->mutex, NULL);
    snprintf(o->data, sizeof(o->data), "%s", data);
    tar_list_init(&o->list, o->dir);
    if (!rc && (size_t)snprintf(o->dir, sizeof(o->dir), "%s/" OFFER_FOLDER,
                                data) >= sizeof(o->dir))
        rc = problem(why, STATUS_INVALID, "%s is too long a name", data);
    if (!rc)
        rc = file_clear(o->data_fd, OFFER_FOLDER, NULL, why);
    if (rc)
        backup_offer_close(o);
    else
        *offer = o;
    return rc;
}

void
backup_offer_close(struct backup_offer *o)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->mutex);
    o->is_stopped = true;
    pthread_mutex_unlock(&o->mutex);
    thread_stop(&o->thread);
    tar_list_fini(&o->list);
    if (o->data_fd >= 0)
        (void)!file_clear(o->data_fd, OFFER_FOLDER, NULL, NULL);
    file_close(&o->data_fd);
    authority_unref(o->authority);
    pthread_mutex_destroy(&o->mutex);
    free(o);
}

enum status
backup_offer_make(struct backup_offer *o, struct authority *authority,
                  struct problem *why)
{
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&o->mutex);
    if (o->state == MAKING || o->state == SENDING)
        rc = problem(why, STATUS_RUNNING, "another backup is being %s",
                     o->state == MAKING ? "made" : "sent");
    if (!rc && !o->has_thread)
        rc = thread_start(&o->thread, "backup", run, o, why);
    if (!rc) {
        o->has_thread = true;
        authority_unref(o->authority);
        o->authority = authority_ref(authority);
        o->state = MAKING;
        thread_wake(&o->thread);
    }
    pthread_mutex_unlock(&o->mutex);
    return rc;
}

static void
on_end(bool is_whole, void *user)
{
    struct backup_offer *o = user;

    pthread_mutex_lock(&o->mutex);
    o->state = is_whole ? SENT : READY;
    o->until_us = clock_steady_us() + OFFER_US;
    pthread_mutex_unlock(&o->mutex);
    thread_wake(&o->thread);
}

enum status
backup_offer_take(struct backup_offer *o, struct body **body,
                  struct problem *why)
{
    enum status rc = STATUS_OK;

    *body = NULL;
    pthread_mutex_lock(&o->mutex);
    switch (look_at_state(o)) {
    case NONE:
    case SENT:
        rc = problem(why, STATUS_NOT_FOUND,
                     "there is no backup: POST /backup makes one");
        break;
    case MAKING:
        rc = STATUS_AGAIN;
        break;
    case SENDING:
        rc = problem(why, STATUS_RUNNING, "the backup is being sent");
        break;
    case FAILED:
        rc = o->failure;
        if (why)
            *why = o->why;
        o->state = NONE;
        break;
    case READY:
        *body = tar_body_new(&o->list, on_end, o);
        o->state = SENDING;
        break;
    }
    pthread_mutex_unlock(&o->mutex);
    return rc;
}
