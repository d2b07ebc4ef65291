#include "broker/sets/set_change.h"

#include "broker/sets/peers.h"

/* Discards: the stored bytes that settings would delete */

/* Archived generations that are read at once. */
#define ARCHIVED_AT_ONCE 64

static struct retention
retention_of(const struct settings *settings)
{
    return (struct retention){settings->retain_lists, settings->retain_age_us};
}

/* Reads one closed list. */
static enum status
read_list(const struct set *set, uint64_t number, struct list_info *list,
          struct problem *why)
{
    size_t n = 1;
    enum status rc =
        log_lists(registry_log(set->registry), set->log, number, list, &n, why);

    if (!rc && n == 0)
        rc = problem(why, STATUS_IO, "the log has lost list %" PRIu64, number);
    return rc;
}

/* Sets *number to the oldest list that `retention` keeps; the open list, if it
 * keeps no closed one. Lists end in the order of their numbers: a search by
 * halves reads few of them. */
static enum status
first_kept(const struct set *set, const struct head *head,
           const struct retention *retention, uint64_t *number,
           struct problem *why)
{
    uint64_t end = head->list;
    int64_t since_us = retention_since_us(retention);
    enum status rc = STATUS_OK;

    *number = head->first_list +
              retention_over(retention, head->list - head->first_list);
    while (!rc && since_us != INT64_MIN && *number < end) {
        uint64_t middle = *number + (end - *number) / 2;
        struct list_info list;

        rc = read_list(set, middle, &list, why);
        if (!rc && list.until_us < since_us)
            *number = middle + 1;
        else
            end = middle;
    }
    return rc;
}

/* What a set would lose. */
struct comparison {
    const struct set *set;
    const struct head *head;
    struct retention before, after;
};

static enum status
count_lists(const struct comparison *c, struct discards *d, struct problem *why)
{
    uint64_t kept_before, kept_after;
    struct list_info oldest, newest;
    enum status rc = first_kept(c->set, c->head, &c->before, &kept_before, why);

    if (!rc)
        rc = first_kept(c->set, c->head, &c->after, &kept_after, why);
    if (rc || kept_after <= kept_before)
        return rc;
    d->lists = kept_after - kept_before;
    rc = read_list(c->set, kept_before, &oldest, why);
    if (!rc)
        rc = read_list(c->set, kept_after - 1, &newest, why);
    if (!rc)
        d->entries = newest.last - oldest.after;
    return rc;
}

/* True if `retention` lets go of the generation that is the `i`-th of `n`
 * archived ones. The newest one always stays. */
static bool
lets_go(const struct retention *retention, int64_t since_us,
        const struct generation *generation, uint64_t i, uint64_t n)
{
    return i + 1 < n && (i < retention_over(retention, n) ||
                         generation->completed_us < since_us);
}

/* Archived generations are few, and as a rule complete in the order of their
 * numbers. */
static enum status
count_archived(const struct comparison *c, enum generation_kind kind,
               struct discards *d, struct problem *why)
{
    const struct generations *all = &c->head->generations[kind];
    int64_t before_us = retention_since_us(&c->before);
    int64_t after_us = retention_since_us(&c->after);
    uint64_t number = all->first_archived;

    for (uint64_t i = 0; i + 1 < all->n_archived;) {
        struct generation some[ARCHIVED_AT_ONCE];
        struct generation_page page = {kind, number, some, ARCHIVED_AT_ONCE};
        enum status rc = log_generations(registry_log(c->set->registry),
                                         c->set->log, &page, why);

        if (rc || page.n == 0)
            return rc;
        for (size_t j = 0; j < page.n; j++, i++) {
            if (!lets_go(&c->after, after_us, &some[j], i, all->n_archived))
                return STATUS_OK;
            if (lets_go(&c->before, before_us, &some[j], i, all->n_archived))
                continue;
            d->archived++;
            d->archived_bytes += some[j].bytes;
        }
        number = some[page.n - 1].number + 1;
    }
    return STATUS_OK;
}

/* The archive thread counts the files behind the log. Acquire: the numbers are
 * at least as new as the entry up to which it says that they are. */
static void
count_content(const struct set *set, const struct head *head,
              struct discards *d)
{
    uint64_t last =
        atomic_load_explicit(&set->content_counts.last, memory_order_acquire);

    d->files =
        atomic_load_explicit(&set->content_counts.files, memory_order_relaxed);
    d->bytes =
        atomic_load_explicit(&set->content_counts.bytes, memory_order_relaxed);
    if (last < head->last)
        d->uncounted = head->last - last;
}

/* Counts what `after` would delete of a set that has `head` and the settings
 * `before`. Reads the disk. */
static enum status
count_discards(const struct set *set, const struct head *head,
               const struct settings *before, const struct settings *after,
               struct discards *d, struct problem *why)
{
    struct comparison c = {set, head, retention_of(before),
                           retention_of(after)};
    enum status rc = STATUS_OK;

    memset(d, 0, sizeof(*d));
    if (before->content != CONTENT_NONE && after->content == CONTENT_NONE)
        count_content(set, head, d);
    if (c.before.lists == c.after.lists && c.before.age_us == c.after.age_us)
        return STATUS_OK;
    rc = count_lists(&c, d, why);
    for (int kind = 0; !rc && kind < GENERATION_KINDS; kind++)
        rc = count_archived(&c, (enum generation_kind)kind, d, why);
    return rc;
}

bool
discards_any(const struct discards *d)
{
    return d->lists || d->archived || d->files || d->uncounted;
}

/* Appends "3 closed Change Lists (150 entries)" behind *separator. */
static void
explain_one(struct buf *to, const char **separator, uint64_t n,
            const char *what, uint64_t size, const char *unit)
{
    if (n == 0)
        return;
    buf_add_format(to, "%s%" PRIu64 " %s%s (%" PRIu64 " %s)", *separator, n,
                   what, n > 1 ? "s" : "", size, unit);
    *separator = ", ";
}

/* Writes a sentence: "this would delete 3 closed Change Lists (150 entries)".
 */
static void
explain_discards(const struct discards *d, struct problem *why)
{
    const char *separator = "this would delete ";
    struct buf text;

    buf_init(&text, sizeof(why->text));
    explain_one(&text, &separator, d->lists, "closed Change List", d->entries,
                "entries");
    explain_one(&text, &separator, d->archived, "archived document",
                d->archived_bytes, "bytes");
    explain_one(&text, &separator, d->files, "content file", d->bytes, "bytes");
    if (d->uncounted)
        buf_add_format(&text,
                       "%sthe content of the last %" PRIu64
                       " entries, which is not counted yet",
                       separator, d->uncounted);
    problem_set(why, "%.*s", SLICE_ARG(buf_slice(&text)));
    buf_fini(&text);
}

void
discards_write(struct buf *to, const struct discards *d)
{
    buf_add_format(to,
                   "{\"lists\":%" PRIu64 ",\"entries\":%" PRIu64
                   ",\"archived\":%" PRIu64 ",\"archivedBytes\":%" PRIu64
                   ",\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
                   ",\"uncounted\":%" PRIu64 "}",
                   d->lists, d->entries, d->archived, d->archived_bytes,
                   d->files, d->bytes, d->uncounted);
}

/* Settings */

enum status
name_check(const char *of, struct slice name, struct problem *why)
{
    if (set_name_is_valid(name))
        return STATUS_OK;
    return problem(why, STATUS_NOT_FOUND,
                   "no %s can be called \"%s\": a name is 1 to 64 of a-z 0-9 "
                   ". _ - and begins with a letter or digit",
                   of, problem_quote(name).text);
}

enum status
set_change_read(struct registry *registry, const struct set_change_wish *wish,
                struct settings *settings, struct problem *why)
{
    const struct config *config = registry_config(registry);
    enum status rc =
        wish->mode == SET_CHANGE_MERGE
            ? settings_read_change(settings, config, wish->body, why)
            : settings_read(settings, config, wish->body, why);

    return !rc && config->cluster[0] ? settings_check_cluster(settings, why)
                                     : rc;
}

void
set_change_free(struct set_change *a)
{
    if (!a)
        return;
    buf_fini(&a->text);
    settings_free(a->settings);
    settings_free(a->change);
    harvest_unref(a->harvest);
    client_unref(a->client);
    authority_unref(a->authority);
    free(a);
}

static enum status
submit_change(struct set_change *a, struct problem *why)
{
    enum status rc = log_submit(registry_log(a->registry), &a->post);

    return rc ? problem(why, rc, "the broker is ending") : STATUS_OK;
}

/* Submits it to the set that has the name now. */
static enum status
submit_by_name(struct set_change *a, struct problem *why)
{
    struct set *before = a->set;
    enum status rc;

    if (a->mode == SET_CHANGE_MERGE) {
        a->set = registry_find(a->registry, slice_of(a->name), NULL);
        if (!a->set)
            return problem(why, STATUS_NOT_FOUND, "there is no set %s",
                           a->name);
    } else {
        rc = registry_make(a->registry, slice_of(a->name), a->client, &a->set,
                           why);
        if (rc)
            return rc;
        /* The removed one again: there was no memory to bury it (registry.c).
         */
        if (a->set == before)
            return registry_full(why);
    }
    a->post.set = a->set->log;
    return submit_change(a, why);
}

/* Puts a change into effect that is committed. The log answers commits in
 * their order, so the last settings win. */
static void
publish(struct set_change *a)
{
    if (a->act.kind == ACT_HARVEST) {
        registry_set_harvest(a->set, a->harvest);
        a->harvest = NULL;
        return;
    }
    if (a->act.kind == ACT_REMOVAL) {
        registry_set_removed(a->set);
    } else {
        registry_set_settings(a->set, a->settings);
        a->settings = NULL;
    }
    registry_notify_changed(a->registry);
}

/* Log thread. */
static void
on_answered(struct post *post)
{
    struct set_change *a = list_entry(post, struct set_change, post);

    /* The set was removed while this waited: make it again. */
    if (post->status == STATUS_GONE && a->mode != SET_CHANGE_MERGE) {
        post->status = submit_by_name(a, &post->why);
        if (!post->status)
            return;
    }
    if (post->status && a->has_marked)
        set_mark_private(a->set, false);
    if (!post->status)
        publish(a);
    a->on_done(a, a->user);
}

/* A change by an act of this kind; ACT_SETTINGS: by prepare_settings. */
static struct set_change *
set_change_new(struct registry *registry, enum act_kind kind,
               struct authority *authority,
               void (*on_done)(struct set_change *, void *), void *user)
{
    struct set_change *a = memory_new(1, sizeof(*a));

    a->registry = registry;
    a->on_done = on_done;
    a->user = user;
    a->act.kind = kind;
    a->post.kind = POST_ACT;
    a->post.act = &a->act;
    a->post.done = on_answered;
    a->post.authority = a->authority = authority_ref(authority);
    return a;
}

/* Checks the peers against other sets and our own URL. The claim on the topic
 * ends with the settings. */
static enum status
check_peers(const struct set_change *a, struct problem *why)
{
    struct registry *r = a->registry;
    struct peers *peers = a->settings->peers;
    enum status rc;

    if (!peers)
        return STATUS_OK;
    rc = peers_check_foreign(peers, registry_public_url(r), why);
    return rc ? rc : registry_claim_upstream(r, a->name, peers, why);
}

/* Makes a->settings of `before` and the change. */
static enum status
merge_change(struct set_change *a, const struct settings *before,
             struct problem *why)
{
    struct settings *merged = memory_new(1, sizeof(*merged));
    struct buf text;
    enum status rc;

    buf_init(&text, SETTINGS_BYTES_MAX);
    settings_merge(&text, before, a->change);
    rc = settings_read(merged, registry_config(a->registry), buf_slice(&text),
                       why);
    settings_free(a->settings);
    a->settings = merged;
    if (!rc)
        rc = check_peers(a, why);
    buf_fini(&text);
    return rc;
}

static enum status
check_discards(struct set_change *a, const struct head *head,
               const struct settings *before, struct problem *why)
{
    struct problem what = {""};
    enum status rc =
        count_discards(a->set, head, before, a->settings, &a->discards, why);

    if (rc || !discards_any(&a->discards))
        return rc;
    explain_discards(&a->discards, &what);
    return problem(why, STATUS_CONFLICT,
                   "%s%s; add ?discard=yes (--discard) if that "
                   "is meant",
                   a->mode == SET_CHANGE_REPLACE
                       ? "PUT resets the settings that it leaves out, and "
                       : "",
                   what.text);
}

/* Caches keep a public set, and others have subscribed to it. Foreign hubs and
 * Sources would learn the name of a private set. */
static enum status
check_privacy(const struct set_change *a, bool exists, struct problem *why)
{
    bool is_private = set_is_private(a->set);

    if (a->settings->is_private && a->settings->peers)
        return problem(why, STATUS_INVALID,
                       "private: a private set has no upstreamTopic and no "
                       "hubs, which would tell others of it");
    if ((exists || is_private) && is_private != a->settings->is_private)
        return problem(why, STATUS_INVALID,
                       "private: is %s from the beginning of the set to its "
                       "end; make another set",
                       is_private ? "true" : "false");
    return STATUS_OK;
}

/* Merged with nothing, a change would reset all the settings that it does not
 * name. */
static enum status
check_unread(const struct set_change *a, struct problem *why)
{
    if (!set_is_unread(a->set) ||
        (a->mode == SET_CHANGE_REPLACE && a->may_discard))
        return STATUS_OK;
    return problem(why, STATUS_CONFLICT,
                   "the set %s has settings that this broker cannot read, as "
                   "its log says; PUT with ?discard=yes replaces them all",
                   a->name);
}

/* Takes back what an earlier call of prepare_settings has marked: another
 * broker has made the set meanwhile, or may have. */
static void
unmark(struct set_change *a, bool exists, const struct settings *before)
{
    if (a->has_marked && !set_is_unread(a->set))
        set_mark_private(a->set, exists && before->is_private);
    a->has_marked = false;
}

/* Log thread: post.h. Earlier settings are in effect. */
static enum status
prepare_settings(struct post *post)
{
    struct set_change *a = list_entry(post, struct set_change, post);
    struct settings before;
    struct head head;
    bool exists = log_head(a->set->log, &head);
    enum status rc = STATUS_OK;

    registry_settings(a->set, &before);
    unmark(a, exists, &before);
    if (exists && a->mode == SET_CHANGE_CREATE)
        return problem(&post->why, STATUS_CONFLICT,
                       "the set %s exists; PATCH (tidings set change) changes "
                       "its settings",
                       a->name);
    rc = check_unread(a, &post->why);
    if (rc)
        return rc;
    before.peers = registry_peers(a->set);
    if (a->mode == SET_CHANGE_MERGE)
        rc = merge_change(a, &before, &post->why);
    if (!rc && exists && !a->may_discard)
        rc = check_discards(a, &head, &before, &post->why);
    settings_fini(&before);
    if (!rc)
        rc = check_privacy(a, exists, &post->why);
    if (rc)
        return rc;
    buf_clear(&a->text);
    settings_write(&a->text, a->settings, false);
    if (a->settings->is_private && !set_is_private(a->set)) {
        a->has_marked = true;
        set_mark_private(a->set, true);
    }
    post->settings = buf_slice(&a->text);
    post->limits = settings_limits(a->settings);
    return STATUS_OK;
}

enum status
set_change_settings(struct registry *registry,
                    const struct set_change_wish *wish,
                    void (*on_done)(struct set_change *, void *), void *user,
                    struct problem *why)
{
    struct set_change *a;
    enum status rc = name_check("set", wish->name, why);

    if (rc)
        return rc;
    a = set_change_new(registry, ACT_SETTINGS, wish->authority, on_done, user);
    a->settings = memory_new(1, sizeof(*a->settings));
    buf_init(&a->text, SETTINGS_BYTES_MAX);
    memcpy(a->name, wish->name.data, wish->name.size);
    a->mode = wish->mode;
    a->may_discard = wish->may_discard;
    a->client = client_ref(wish->client);
    rc = set_change_read(registry, wish, a->settings, why);
    if (!rc)
        rc = check_peers(a, why);
    if (rc)
        goto out;
    if (a->mode == SET_CHANGE_MERGE) {
        a->change = a->settings;
        a->settings = NULL;
    }
    a->post.kind = POST_SETTINGS;
    a->post.prepare = prepare_settings;
    rc = submit_by_name(a, why);

out:
    if (rc)
        set_change_free(a);
    return rc;
}

/* Sets that begin and end */

/* A thread that waits for a new set. */
struct awaited {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done;
    struct set *set;
    enum status rc;
    struct problem *why;
};

static void
on_made(struct set_change *a, void *user)
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
    set_change_free(a);
}

enum status
set_change_make(struct registry *registry, struct slice name,
                struct client *client, struct set **set, struct problem *why)
{
    struct awaited w = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                        .changed = PTHREAD_COND_INITIALIZER,
                        .why = why};
    struct set_change_wish wish = {
        .mode = SET_CHANGE_CREATE, .name = name, .client = client};
    enum status rc = set_change_settings(registry, &wish, on_made, &w, why);

    if (rc)
        return rc;
    pthread_mutex_lock(&w.mutex);
    while (!w.is_done)
        pthread_cond_wait(&w.changed, &w.mutex);
    pthread_mutex_unlock(&w.mutex);
    *set = w.set;
    return w.rc == STATUS_CONFLICT ? STATUS_OK : w.rc;
}

enum status
set_change_harvest(struct registry *registry, struct slice name,
                   struct client *client, struct authority *authority,
                   struct harvest *harvest,
                   void (*on_done)(struct set_change *, void *), void *user,
                   struct problem *why)
{
    struct set_change *a =
        set_change_new(registry, ACT_HARVEST, authority, on_done, user);
    enum status rc = name_check("set", name, why);

    a->client = client_ref(client);
    a->harvest = harvest;
    a->mode = harvest ? SET_CHANGE_REPLACE : SET_CHANGE_MERGE;
    a->act.harvest.text = harvest ? harvest->text : SLICE("");
    if (!rc) {
        memcpy(a->name, name.data, name.size);
        rc = submit_by_name(a, why);
    }
    if (rc)
        set_change_free(a);
    return rc;
}

enum status
set_change_remove(struct set *set, struct authority *authority,
                  void (*on_done)(struct set_change *, void *), void *user,
                  struct problem *why)
{
    struct set_change *a =
        set_change_new(set->registry, ACT_REMOVAL, authority, on_done, user);
    enum status rc;

    a->mode = SET_CHANGE_MERGE;
    a->set = set;
    a->post.set = set->log;
    a->post.grace_us = registry_config(set->registry)->remove_grace_us;
    rc = submit_change(a, why);
    if (rc)
        set_change_free(a);
    return rc;
}
