#include "broker/archive/uploads.h"

#include "broker/archive/upload_apply.h"
#include "broker/base/metrics.h"
#include "broker/state/upload_file.h"

/* The pause after a failure of an upload without a waiting request. */
#define PAUSE_US 10000000

/* The pause of an upload whose state is held; others have their turn. */
#define HELD_US 1000000

/* The table */

static struct upload *
add_upload(struct uploads *u, struct slice name)
{
    struct upload *upload = memory_new(1, sizeof(*upload));

    memcpy(upload->name, name.data, name.size);
    list_append(&u->list, &upload->node);
    u->n++;
    metrics_set(METRIC_UPLOADS_AT_WORK, u->n);
    return upload;
}

static void
drop_upload(struct uploads *u, struct upload *upload)
{
    list_remove(&upload->node);
    u->n--;
    metrics_set(METRIC_UPLOADS_AT_WORK, u->n);
    client_unref(upload->client);
    authority_unref(upload->authority);
    free(upload);
}

enum status
uploads_begin(struct uploads *u, struct slice name, struct client *client,
              struct authority *authority, struct upload **upload,
              struct problem *why)
{
    struct upload *other;
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&u->mutex);
    list_walk (other, &u->list, node) {
        if (slice_is(name, other->name))
            rc = STATUS_RUNNING;
    }
    if (rc) {
        rc = problem(why, STATUS_RUNNING,
                     "another request puts the resources of \"%s\" already",
                     problem_quote(name).text);
    } else if (u->n >= UPLOADS_MAX) {
        rc = problem(why, STATUS_BUSY,
                     "requests put the resources of %u sets already", u->n);
    } else {
        *upload = add_upload(u, name);
        (*upload)->client = client_ref(client);
        (*upload)->authority = authority_ref(authority);
    }
    pthread_mutex_unlock(&u->mutex);
    return rc;
}

void
uploads_give_up(struct uploads *u, struct upload *upload)
{
    pthread_mutex_lock(&u->mutex);
    drop_upload(u, upload);
    pthread_mutex_unlock(&u->mutex);
}

/* The end of the process: complete uploads stay on the disk. */
static const struct upload_outcome ending = {
    .status = STATUS_STOPPED,
    .why = {"the broker is ending; it continues with these resources at its "
            "next start",
            0, 0},
};

void
uploads_hand_over(struct uploads *u, struct upload *upload,
                  void (*on_done)(const struct upload_outcome *, void *),
                  void *user)
{
    bool is_ending;

    pthread_mutex_lock(&u->mutex);
    is_ending = u->is_ending;
    upload->on_done = on_done;
    upload->user = user;
    upload->is_whole = true;
    if (is_ending)
        drop_upload(u, upload);
    else
        thread_wake(u->thread); /* in the mutex: the thread has not ended */
    pthread_mutex_unlock(&u->mutex);
    if (is_ending)
        on_done(&ending, user);
}

/* Archive thread */

/* Postpones an upload to a later turn. */
static void
put_off(struct uploads *u, struct upload *upload, int64_t pause_us)
{
    pthread_mutex_lock(&u->mutex);
    upload->not_before_us = clock_steady_us() + pause_us;
    pthread_mutex_unlock(&u->mutex);
}

/* Ends an upload with its outcome. */
static void
finish_upload(struct uploads *u, struct upload *upload)
{
    struct upload_outcome o = upload->outcome;
    void (*on_done)(const struct upload_outcome *, void *) = upload->on_done;
    void *user = upload->user;

    if (o.status == STATUS_STOPPED)
        o = ending;
    else if (o.status)
        DIAG(DIAG_WARNING, "archive",
             "the resources that a source put were not applied",
             diag_text("set", upload->name), diag_text("error", o.why.text));
    else
        DIAG(o.counts.held_back ? DIAG_WARNING : DIAG_INFO, "archive",
             o.counts.held_back
                 ? "the resources that a source put were applied, without "
                   "deletions that need consent"
                 : "the resources that a source put were applied",
             diag_text("set", upload->name),
             diag_number("created", o.counts.created),
             diag_number("updated", o.counts.updated),
             diag_number("deleted", o.counts.deleted),
             diag_number("held_back", o.counts.held_back));
    metrics_add(METRIC_UPLOADS, !o.status);
    /* A later attempt may succeed, and no request waits for this one. */
    if (!on_done && (o.status == STATUS_BUSY || o.status == STATUS_IO ||
                     o.status == STATUS_MEMORY || o.status == STATUS_AGAIN)) {
        put_off(u, upload, PAUSE_US);
        return;
    }
    /* The upload is still at work, so nobody else touches its files. Not under
     * the mutex, which service threads take: this may take long. */
    if (o.status != STATUS_STOPPED)
        upload_file_remove(u->dir, upload->name);
    /* Before on_done: a source that repeats the upload then does not find it at
     * work. */
    pthread_mutex_lock(&u->mutex);
    drop_upload(u, upload);
    pthread_mutex_unlock(&u->mutex);
    if (on_done)
        on_done(&o, user);
}

static bool
uploads_some(struct chore *chore)
{
    struct uploads *u = list_entry(chore, struct uploads, chore);
    int64_t now_us = clock_steady_us();
    struct problem why = {""};
    bool is_done = false, is_waiting;
    struct upload *upload;
    enum status rc = STATUS_OK;

    if (!u->current) {
        pthread_mutex_lock(&u->mutex);
        list_walk (upload, &u->list, node)
            if (!u->current && upload->is_whole &&
                upload->not_before_us <= now_us)
                u->current = upload;
        pthread_mutex_unlock(&u->mutex);
        if (!u->current)
            return false;
        rc =
            upload_apply_open(&u->apply, u->registry, u->dir, u->current, &why);
    }
    if (!rc)
        rc = authority_check(u->current->authority, clock_now_us(), &why);
    if (!rc)
        rc = upload_apply_step(u->apply, u->folding, &is_done, &why);
    is_waiting = rc == STATUS_RUNNING;
    if (!rc && !is_done)
        return true;
    upload_apply_close(u->apply);
    u->apply = NULL;
    if (is_waiting) { /* others have their turn first */
        put_off(u, u->current, HELD_US);
    } else {
        u->current->outcome.status = rc;
        u->current->outcome.why = why;
        finish_upload(u, u->current);
    }
    u->current = NULL;
    return !is_waiting;
}

/* Answers the waiting requests. */
static void
uploads_end(struct chore *chore)
{
    struct uploads *u = list_entry(chore, struct uploads, chore);
    struct upload *upload;

    upload_apply_close(u->apply);
    u->apply = NULL;
    u->current = NULL;
    pthread_mutex_lock(&u->mutex);
    u->is_ending = true;
    list_walk (upload, &u->list, node) {
        if (!upload->is_whole)
            continue; /* its request ends it */
        if (authority_is_over(upload->authority, clock_now_us()))
            upload_file_remove(u->dir, upload->name);
        if (upload->on_done)
            upload->on_done(&ending, upload->user);
        drop_upload(u, upload);
    }
    pthread_mutex_unlock(&u->mutex);
}

/* Life */

static void
on_left(const char *name, void *user)
{
    struct uploads *u = user;
    struct upload *upload = add_upload(u, slice_of(name));

    upload->is_whole = true;
    DIAG(DIAG_INFO, "archive",
         "the broker continues with the resources that a source put",
         diag_text("set", name));
}

enum status
uploads_init(struct uploads *u, struct registry *registry,
             struct state_fold *folding, struct thread *thread,
             struct problem *why)
{
    memset(u, 0, sizeof(*u));
    u->chore = (struct chore){.step = uploads_some, .end = uploads_end};
    u->registry = registry;
    u->folding = folding;
    u->thread = thread;
    snprintf(u->dir, sizeof(u->dir), "%s/uploads", registry->config->data);
    pthread_mutex_init(&u->mutex, NULL);
    clients_limit_all(&registry->clients, CLIENT_UPLOADS, UPLOADS_MAX);
    list_init(&u->list);
    return upload_file_left(u->dir, on_left, u, why);
}

void
uploads_fini(struct uploads *u)
{
    struct upload *upload;

    list_walk (upload, &u->list, node)
        drop_upload(u, upload);
    pthread_mutex_destroy(&u->mutex);
}
