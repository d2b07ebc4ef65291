#include "broker/sets/alter.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "broker/sets/configured.h"
#include "broker/sets/peers.h"
#include "broker/sets/settings.h"
#include "proto/uri.h"

enum status
alter_check_name(struct slice name, struct problem *why)
{
    if (set_name_is_valid(name))
        return STATUS_OK;
    return problem(why, STATUS_NOT_FOUND,
                   "no set can be called \"%s\": a name is 1 to 64 of a-z 0-9 "
                   ". _ - and begins with a letter or digit",
                   problem_quote(name).text);
}

void
alter_free(struct alteration *a)
{
    if (!a)
        return;
    buf_fini(&a->text);
    settings_free(a->settings);
    free(a);
}

static enum status
submit(struct alteration *a, struct problem *why)
{
    enum status rc = log_submit(registry_log(a->registry), &a->post);

    return rc ? problem(why, rc, "the broker is ending") : STATUS_OK;
}

/* Gives the settings to the set of that name as it is now. */
static enum status
submit_settings(struct alteration *a, struct problem *why)
{
    struct set *before = a->set;

    a->set = registry_make(a->registry, slice_of(a->name));
    /* The removed one again: there was no memory to bury it (registry.c). */
    if (!a->set || a->set == before)
        return registry_full(why);
    a->post.set = a->set->log;
    return submit(a, why);
}

/* Log thread. Commits are answered in their order, so the settings that are
 * published last are those that were committed last. */
static void
on_settings(struct post *post)
{
    struct alteration *a = list_entry(post, struct alteration, post);

    /* The set was removed while this waited: it begins again with it. */
    if (post->status == STATUS_GONE) {
        post->status = submit_settings(a, &post->why);
        if (!post->status)
            return;
    }
    if (!post->status && (post->is_birth || !post->is_for_new)) {
        registry_set_settings(a->set, a->settings);
        a->settings = NULL;
        registry_tell_changed(a->registry);
    }
    a->on_done(a, a->user);
}

/* What of the peers can be judged only with the other sets and our own URL in
 * sight. The claim on the topic ends with the settings. */
static enum status
check_peers(const struct alteration *a, struct problem *why)
{
    struct registry *r = a->registry;
    struct peers *peers = a->settings->peers;
    enum status rc;

    if (!peers)
        return STATUS_OK;
    rc = peers_check_foreign(peers, registry_public_url(r), why);
    return rc ? rc : configured_claim(r, a->name, peers, why);
}

static enum status
set_settings(struct registry *registry, struct slice name, struct slice body,
             bool is_for_new, void (*on_done)(struct alteration *, void *),
             void *user, struct problem *why)
{
    struct alteration *a = NULL;
    enum status rc = alter_check_name(name, why);

    if (rc)
        return rc;
    a = calloc(1, sizeof(*a));
    if (a)
        a->settings = calloc(1, sizeof(*a->settings));
    if (!a || !a->settings) {
        rc = problem(why, STATUS_BUSY, "the broker has no memory left");
        goto out;
    }
    buf_init(&a->text, SETTINGS_BYTES_MAX);
    memcpy(a->name, name.data, name.size);
    a->registry = registry;
    a->on_done = on_done;
    a->user = user;
    rc = settings_read(a->settings, registry_config(registry), body, why);
    if (!rc)
        rc = check_peers(a, why);
    if (rc)
        goto out;
    settings_write(&a->text, a->settings, false);
    if (a->text.failed) {
        rc = problem(why, STATUS_BUSY, "the broker has no memory left");
        goto out;
    }
    a->post.kind = POST_SETTINGS;
    a->post.is_for_new = is_for_new;
    a->post.settings = buf_slice(&a->text);
    a->post.limits = settings_limits(a->settings);
    a->post.done = on_settings;
    rc = submit_settings(a, why);

out:
    if (rc)
        alter_free(a);
    return rc;
}

enum status
alter_settings(struct registry *registry, struct slice name, struct slice body,
               void (*on_done)(struct alteration *, void *), void *user,
               struct problem *why)
{
    return set_settings(registry, name, body, false, on_done, user, why);
}

/* Who waits for a set to be made. */
struct awaited {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done;
    struct set *set;
    enum status rc;
    struct problem *why;
};

static void
on_made(struct alteration *a, void *user)
{
    struct awaited *w = user;

    pthread_mutex_lock(&w->mutex);
    w->is_done = true;
    w->set = a->set;
    w->rc = a->post.status;
    if (w->rc && w->why)
        *w->why = a->post.why;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    alter_free(a);
}

enum status
alter_make(struct registry *registry, struct slice name, struct set **set,
           struct problem *why)
{
    struct awaited w = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                        .changed = PTHREAD_COND_INITIALIZER,
                        .why = why};
    enum status rc =
        set_settings(registry, name, SLICE(""), true, on_made, &w, why);

    if (rc)
        return rc;
    pthread_mutex_lock(&w.mutex);
    while (!w.is_done)
        pthread_cond_wait(&w.changed, &w.mutex);
    pthread_mutex_unlock(&w.mutex);
    *set = w.set;
    return w.rc;
}

static void
on_removal(struct post *post)
{
    struct alteration *a = list_entry(post, struct alteration, post);

    if (!post->status) {
        registry_set_removed(a->set);
        registry_tell_changed(a->registry);
    }
    a->on_done(a, a->user);
}

enum status
alter_remove(struct set *set, void (*on_done)(struct alteration *, void *),
             void *user, struct problem *why)
{
    struct alteration *a = calloc(1, sizeof(*a));
    enum status rc;

    if (!a)
        return problem(why, STATUS_BUSY, "the broker has no memory left");
    a->registry = set->registry;
    a->set = set;
    a->on_done = on_done;
    a->user = user;
    a->post.kind = POST_REMOVE;
    a->post.set = set->log;
    a->post.grace_us = registry_config(set->registry)->remove_grace_us;
    a->post.done = on_removal;
    rc = submit(a, why);
    if (rc)
        alter_free(a);
    return rc;
}
