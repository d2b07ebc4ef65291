#include "broker/sets/set_change.h"

#include <semaphore.h>

#include "broker/sets/peers.h"

/* Discards: the stored bytes that settings would delete */

/* Archived generations that are read at once. */
#define ARCHIVED_AT_ONCE 64

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

        rc = log_list(set->registry->log, set->log, middle, &list, NULL, why);
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
        enum status rc =
            log_generations(c->set->registry->log, c->set->log, &page, why);

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

/* Counts what `after` would delete of a set that has `head` and the settings
 * `before`. Reads the disk. */
static enum status
count_discards(const struct set *set, const struct head *head,
               const struct settings *before, const struct settings *after,
               struct discards *d, struct problem *why)
{
    struct comparison c = {set, head, before->retention, after->retention};
    const struct content_counts *counts = &set->content_counts;
    uint64_t from = before->content_versions, to = after->content_versions;
    uint64_t kept_before = 0, kept_after = 0;
    struct list_info oldest, newest;
    enum status rc;

    memset(d, 0, sizeof(*d));
    if (before->content != CONTENT_NONE && after->content == CONTENT_NONE) {
        /* The archive thread counts the files behind the log. Acquire: the
         * numbers are at least as new as the entry up to which it says that
         * they are. */
        uint64_t last =
            atomic_load_explicit(&counts->last, memory_order_acquire);

        d->files = load_relaxed(&counts->files);
        d->bytes = load_relaxed(&counts->bytes);
        d->uncounted = last < head->last ? head->last - last : 0;
    }
    /* A number and an age do not compare. */
    if (after->content != CONTENT_NONE && to != OPTION_KEEP_ALL &&
        (to < from || (from < OPTION_KEEP_AGE && to >= OPTION_KEEP_AGE)))
        d->versions = load_relaxed(&counts->former);
    if (c.before.lists == c.after.lists && c.before.age_us == c.after.age_us)
        return STATUS_OK;
    rc = first_kept(set, head, &c.before, &kept_before, why);
    if (!rc)
        rc = first_kept(set, head, &c.after, &kept_after, why);
    if (!rc && kept_after > kept_before) {
        d->lists = kept_after - kept_before;
        rc = log_list(set->registry->log, set->log, kept_before, &oldest, NULL,
                      why);
        if (!rc)
            rc = log_list(set->registry->log, set->log, kept_after - 1, &newest,
                          NULL, why);
        if (!rc)
            d->entries = newest.last - oldest.after;
    }
    for (int kind = 0; !rc && kind < GENERATION_KINDS; kind++)
        rc = count_archived(&c, (enum generation_kind)kind, d, why);
    return rc;
}

bool
discards_any(const struct discards *d)
{
    return d->lists || d->archived || d->files || d->versions || d->uncounted;
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

void
discards_write(struct buf *to, const struct discards *d)
{
    buf_add_format(to,
                   "{\"lists\":%" PRIu64 ",\"entries\":%" PRIu64
                   ",\"archived\":%" PRIu64 ",\"archivedBytes\":%" PRIu64
                   ",\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
                   ",\"versions\":%" PRIu64 ",\"uncounted\":%" PRIu64 "}",
                   d->lists, d->entries, d->archived, d->archived_bytes,
                   d->files, d->bytes, d->versions, d->uncounted);
}

/* Settings */

enum status
name_check(const char *of, struct slice name, struct problem *why)
{
    if (set_name_is_valid(name))
        return STATUS_OK;
    return problem(why, STATUS_NOT_FOUND,
                   "no %s can be called \"%s\": a name is 1 to 64 of a-z 0-9 "
                   ". _ -, all lower-case, and begins with a letter or digit",
                   of, problem_quote(name).text);
}

void
set_change_free(struct set_change *c)
{
    if (!c)
        return;
    buf_fini(&c->text);
    settings_free(c->settings);
    settings_free(c->change);
    harvest_unref(c->harvest);
    client_unref(c->client);
    authority_unref(c->authority);
    free(c);
}

/* Adds to the report of a harvester the consent that somebody gave after the
 * former one: else a new report would take it away unread. False: there is none
 * to add. */
static bool
keep_consent(struct set_change *c)
{
    struct harvest *former = registry_harvest(c->set), *kept = NULL;

    if (former && c->harvest && c->harvest->held_back > 0 &&
        former->accept_deletions > 0 && c->harvest->accept_deletions == 0)
        kept = harvest_with_consent(c->harvest, former->accept_deletions);
    harvest_unref(former);
    if (!kept)
        return false;
    harvest_unref(c->harvest);
    c->harvest = kept;
    c->act.harvest.text = kept->text;
    return true;
}

/* Submits it to the set that has the name now. */
static enum status
submit_by_name(struct set_change *c, struct problem *why)
{
    enum status rc;

    if (c->mode == SET_CHANGE_MERGE) {
        c->set = registry_find(c->registry, slice_of(c->name), NULL);
        if (!c->set)
            return problem(why, STATUS_NOT_FOUND, "there is no set %s",
                           c->name);
    } else {
        rc = registry_make(c->registry, slice_of(c->name), c->client, &c->set,
                           why);
        if (rc)
            return rc;
    }
    if (c->act.kind == ACT_HARVEST)
        keep_consent(c);
    c->post.set = c->set->log;
    return log_submit(c->registry->log, &c->post, why);
}

/* Puts a change into effect that is committed. The log answers commits in their
 * order, so the last settings win. Log thread. */
static void
on_answered(struct post *post)
{
    struct set_change *c = list_entry(post, struct set_change, post);

    /* The set was removed while this waited: make it again. */
    if (post->status == STATUS_GONE && c->mode != SET_CHANGE_MERGE) {
        post->status = submit_by_name(c, &post->why);
        if (!post->status)
            return;
    }
    /* A consent that was committed after this report had been submitted: once
     * more, with it. If nothing can be submitted, memory alone has it, and the
     * next report brings it to the disk. */
    if (!post->status && c->act.kind == ACT_HARVEST && keep_consent(c) &&
        !log_submit(c->registry->log, post, &post->why))
        return;
    if (post->status) {
        if (c->has_marked)
            set_mark_private(c->set, false);
    } else if (c->act.kind == ACT_HARVEST) {
        registry_set_harvest(c->set, c->harvest);
        c->harvest = NULL;
    } else {
        if (c->act.kind == ACT_REMOVAL)
            registry_set_removed(c->set);
        else
            registry_set_settings(c->set, c->settings);
        c->settings = NULL;
        registry_notify_changed(c->registry);
    }
    c->on_done(c, c->user);
}

/* A change by an act of this kind; ACT_SETTINGS: by prepare_settings. */
static struct set_change *
set_change_new(struct registry *registry, enum act_kind kind,
               struct authority *authority,
               void (*on_done)(struct set_change *, void *), void *user)
{
    struct set_change *c = memory_new(1, sizeof(*c));

    c->registry = registry;
    c->on_done = on_done;
    c->user = user;
    c->act.kind = kind;
    c->post.kind = POST_ACT;
    c->post.act = &c->act;
    c->post.done = on_answered;
    c->post.authority = c->authority = authority_ref(authority);
    return c;
}

/* Checks the peers against other sets and our own URL. The claim on the topic
 * ends with the settings. */
static enum status
check_peers(const struct set_change *c, struct problem *why)
{
    struct registry *r = c->registry;
    struct peers *peers = c->settings->peers;
    enum status rc;

    if (!peers)
        return STATUS_OK;
    rc = peers_check_foreign(peers, r->options.public_url, why);
    return rc ? rc : registry_claim_upstream(r, c->name, peers, why);
}

/* Makes c->settings of `before` and the change. */
static enum status
merge_change(struct set_change *c, const struct settings *before,
             struct problem *why)
{
    struct settings *merged = memory_new(1, sizeof(*merged));
    struct buf text = {.max = SETTINGS_BYTES_MAX};
    enum status rc;

    settings_merge(&text, before, c->change);
    rc = settings_read(merged, c->registry->config, buf_slice(&text), false,
                       why);
    settings_free(c->settings);
    c->settings = merged;
    if (!rc)
        rc = check_peers(c, why);
    buf_fini(&text);
    return rc;
}

static enum status
check_discards(struct set_change *c, const struct head *head,
               const struct settings *before, struct problem *why)
{
    const struct discards *d = &c->discards;
    const char *separator = "this would delete ";
    struct buf what = {.max = sizeof(why->text)};
    enum status rc =
        count_discards(c->set, head, before, c->settings, &c->discards, why);

    if (rc || !discards_any(d)) /* the head counts a list that is not there */
        return rc == STATUS_NOT_FOUND ? STATUS_IO : rc;
    explain_one(&what, &separator, d->lists, "closed Change List", d->entries,
                "entries");
    explain_one(&what, &separator, d->archived, "archived document",
                d->archived_bytes, "bytes");
    explain_one(&what, &separator, d->versions, "former version", d->versions,
                "at most");
    explain_one(&what, &separator, d->files, "content file", d->bytes, "bytes");
    if (d->uncounted)
        buf_add_format(&what,
                       "%sthe content of the last %" PRIu64
                       " entries, which is not counted yet",
                       separator, d->uncounted);
    rc = problem(why, STATUS_CONFLICT,
                 "%s%.*s; add ?discard=yes (--discard) if that is meant",
                 c->mode == SET_CHANGE_REPLACE
                     ? "PUT resets the settings that it leaves out, and "
                     : "",
                 SLICE_ARG(buf_slice(&what)));
    buf_fini(&what);
    return rc;
}

/* Caches keep a public set, and others have subscribed to it. Foreign hubs and
 * Sources would learn the name of a private set. */
static enum status
check_privacy(const struct set_change *c, bool exists, struct problem *why)
{
    bool is_private = set_is_private(c->set);

    if (c->settings->is_private && c->settings->peers)
        return problem(why, STATUS_INVALID,
                       "private: a private set has no upstreamTopic and no "
                       "hubs, which would tell others of it");
    if ((exists || is_private) && is_private != c->settings->is_private)
        return problem(why, STATUS_INVALID,
                       "private: is %s from the beginning of the set to its "
                       "end; make another set",
                       is_private ? "true" : "false");
    return STATUS_OK;
}

/* Log thread: post.h. Earlier settings are in effect. */
static enum status
prepare_settings(struct post *post)
{
    struct set_change *c = list_entry(post, struct set_change, post);
    struct settings before;
    struct head head;
    bool exists = log_head(c->set->log, &head);
    enum status rc = STATUS_OK;

    registry_settings(c->set, &before);
    /* Takes back what an earlier call has marked: another broker has made the
     * set meanwhile, or may have. */
    if (c->has_marked && !atomic_load(&c->set->is_unread))
        set_mark_private(c->set, exists && before.is_private);
    c->has_marked = false;
    if (exists && c->mode == SET_CHANGE_CREATE)
        return problem(&post->why, STATUS_CONFLICT,
                       "the set %s exists; PATCH (tidings set change) changes "
                       "its settings",
                       c->name);
    /* Merged with nothing, a change would reset all the settings that it does
     * not name. */
    if (atomic_load(&c->set->is_unread) &&
        !(c->mode == SET_CHANGE_REPLACE && c->may_discard))
        return problem(&post->why, STATUS_CONFLICT,
                       "the set %s has settings that this broker cannot read, "
                       "as its log says; PUT with ?discard=yes replaces them "
                       "all",
                       c->name);
    before.peers = registry_peers(c->set);
    if (c->mode == SET_CHANGE_MERGE)
        rc = merge_change(c, &before, &post->why);
    if (!rc && exists && !c->may_discard)
        rc = check_discards(c, &head, &before, &post->why);
    peers_unref(before.peers);
    if (!rc)
        rc = check_privacy(c, exists, &post->why);
    if (rc)
        return rc;
    buf_clear(&c->text);
    settings_write(&c->text, c->settings, false);
    if (c->settings->is_private && !set_is_private(c->set)) {
        c->has_marked = true;
        set_mark_private(c->set, true);
    }
    post->settings = buf_slice(&c->text);
    post->limits = c->settings->limits;
    return STATUS_OK;
}

enum status
set_change_settings(struct registry *registry,
                    const struct set_change_wish *wish,
                    void (*on_done)(struct set_change *, void *), void *user,
                    struct problem *why)
{
    struct set_change *c;
    enum status rc = name_check("set", wish->name, why);

    if (rc)
        return rc;
    c = set_change_new(registry, ACT_SETTINGS, wish->authority, on_done, user);
    c->settings = memory_new(1, sizeof(*c->settings));
    buf_init(&c->text, SETTINGS_BYTES_MAX);
    memcpy(c->name, wish->name.data, wish->name.size);
    c->mode = wish->mode;
    c->may_discard = wish->may_discard;
    c->client = client_ref(wish->client);
    rc = settings_read(c->settings, registry->config, wish->body,
                       wish->mode == SET_CHANGE_MERGE, why);
    if (!rc)
        rc = check_peers(c, why);
    if (rc)
        goto out;
    if (c->mode == SET_CHANGE_MERGE) {
        c->change = c->settings;
        c->settings = NULL;
    }
    c->post.kind = POST_SETTINGS;
    c->post.prepare = prepare_settings;
    rc = submit_by_name(c, why);

out:
    if (rc)
        set_change_free(c);
    return rc;
}

/* Sets that begin and end */

/* A thread that waits for a new set. */
struct awaited {
    sem_t done;
    struct set *set;
    enum status rc;
    struct problem *why;
};

static void
on_made(struct set_change *c, void *user)
{
    struct awaited *w = user;

    w->set = c->set;
    w->rc = c->post.status;
    if (w->rc && w->why)
        *w->why = c->post.why;
    set_change_free(c);
    sem_post(&w->done);
}

enum status
set_change_make(struct registry *registry, struct slice name,
                struct client *client, struct set **set, struct problem *why)
{
    struct awaited w = {.why = why};
    struct set_change_wish wish = {
        .mode = SET_CHANGE_CREATE, .name = name, .client = client};
    enum status rc;

    sem_init(&w.done, 0, 0);
    rc = set_change_settings(registry, &wish, on_made, &w, why);
    if (rc)
        return rc;
    while (sem_wait(&w.done)) /* a signal came */
        ;
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
    struct set_change *c =
        set_change_new(registry, ACT_HARVEST, authority, on_done, user);
    enum status rc = name_check("set", name, why);

    c->client = client_ref(client);
    c->harvest = harvest;
    /* A consent is to a report that is there: it makes no set. */
    c->mode = harvest && !harvest->accept_deletions ? SET_CHANGE_REPLACE
                                                    : SET_CHANGE_MERGE;
    c->act.harvest.text = harvest ? harvest->text : SLICE("");
    if (!rc) {
        memcpy(c->name, name.data, name.size);
        rc = submit_by_name(c, why);
    }
    if (rc)
        set_change_free(c);
    return rc;
}

enum status
set_change_remove(struct set *set, struct authority *authority,
                  void (*on_done)(struct set_change *, void *), void *user,
                  struct problem *why)
{
    struct set_change *c =
        set_change_new(set->registry, ACT_REMOVAL, authority, on_done, user);
    enum status rc;

    c->mode = SET_CHANGE_MERGE;
    c->set = set;
    c->post.set = set->log;
    c->post.grace_us = set->registry->config->remove_grace_us;
    rc = log_submit(c->registry->log, &c->post, why);
    if (rc)
        set_change_free(c);
    return rc;
}
