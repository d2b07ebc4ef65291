#include "broker/sets/registry.h"

#include "base/array.h"
#include "broker/access/checkpoint_keys.h"
#include "broker/base/metrics.h"
#include "broker/sets/changelist_header.h"
#include "broker/sets/harvest.h"
#include "broker/sets/peers.h"
#include "broker/sets/rates.h"
#include "broker/sets/settings.h"

/* The log of framework events is stored with those of the sets, under a name
 * that no set can have. It retains this number of lists with so many entries.
 */
#define FRAMEWORK_NAME    "_framework"
#define FRAMEWORK_ENTRIES 10000
#define FRAMEWORK_LISTS   10

static size_t
table_place(const struct set_table *table, struct slice name)
{
    return FIRST_FALSE(i, 0, table->n,
                       slice_compare(slice_of(table->rows[i].name), name) < 0);
}

static void *
table_find(const struct set_table *table, struct slice name)
{
    size_t place = table_place(table, name);

    if (place < table->n && slice_is(name, table->rows[place].name))
        return table->rows[place].thing;
    return NULL;
}

static enum status
table_add(struct set_table *table, const char *name, void *thing)
{
    size_t place = table_place(table, slice_of(name));

    if (!ONE_MORE(table->rows, &table->capacity, table->n))
        return STATUS_MEMORY;
    memmove(&table->rows[place + 1], &table->rows[place],
            (table->n - place) * sizeof(*table->rows));
    table->rows[place] = (struct set_table_row){name, thing};
    table->n++;
    return STATUS_OK;
}

/* A name whose set was removed; it stays when the set is made again. */
struct tombstone {
    char name[SET_NAME_MAX + 1];
    uint64_t list;             /* the first list of the next set */
    struct holding name_place; /* of the creator; empty unless the start has
                                  read this tombstone */
};

/* Puts settings into effect for threads that look at all sets. */
static void
store_rules(struct set *set, const struct settings *settings)
{
    atomic_store(&set->rotate_age_us, settings->rotate_age_us);
    atomic_store(&set->retain_lists, settings->retention.lists);
    atomic_store(&set->retain_age_us, settings->retention.age_us);
    atomic_store(&set->resource_list_every_us,
                 settings->resource_list_every_us);
    atomic_store(&set->resource_dump_every_us,
                 settings->resource_dump_every_us);
    atomic_store(&set->has_no_data, settings->has_no_data);
    atomic_store(&set->content_versions, settings->content_versions);
    atomic_store(&set->content, settings->content);
}

/* The kept bytes of a set are `now`; they were `before`. */
static void
change_kept(struct set *set, uint64_t before, uint64_t now)
{
    struct clients *c = &set->registry->clients;

    if (now > before)
        clients_add(c, set->place.client, CLIENT_KEPT, now - before);
    else
        clients_give(c, set->place.client, CLIENT_KEPT, before - now);
}

static void
set_kept(struct set *set, uint64_t bytes)
{
    change_kept(
        set, atomic_exchange_explicit(&set->kept, bytes, memory_order_relaxed),
        bytes);
}

static struct set *
set_new(struct registry *r)
{
    struct set *set = memory_new(1, sizeof(*set) + r->options.progress_size);
    struct settings settings;

    set->registry = r;
    set->progress = (void *)(set + 1);
    settings_start(&settings, r->config);
    store_rules(set, &settings);
    return set;
}

/* Privacy */

void
set_mark_private(struct set *set, bool is_private)
{
    if (atomic_exchange(&set->is_private, is_private) == is_private)
        return;
    if (is_private)
        atomic_fetch_add(&set->registry->n_private, 1);
    else
        atomic_fetch_sub(&set->registry->n_private, 1);
}

bool
set_is_private(const struct set *set)
{
    return atomic_load(&set->is_private);
}

enum status
set_check_rights(const struct set *set, struct problem *why)
{
    int64_t limit_us = set->registry->config->cluster_private_stale_us;
    struct log_copy copy;

    if (limit_us == 0 || !set_is_private(set))
        return STATUS_OK;
    log_copy(set->registry->log, &copy);
    return copy.silent_us <= limit_us
               ? STATUS_OK
               : problem(why, STATUS_BUSY,
                         "this broker lacks news of its cluster for %lld s: a "
                         "right to a private set may have been revoked",
                         (long long)(copy.silent_us / 1000000));
}

bool
set_is_visible(const struct set *set, const struct principal *principal)
{
    return !set_is_private(set) ||
           principal_sees(principal, slice_of(set->name), true);
}

/* Settings */

/* After each commit that makes, changes or removes a set: gives it new settings
 * (NULL: it was removed), frees the old ones, and counts a private set.
 * Switches the upstream topic with them, without a moment in which a topic of
 * both leads to no set. Log thread, or the start. */
static void
swap_settings(struct set *set, struct settings *settings)
{
    struct registry *r = set->registry;
    struct peers *peers = settings ? settings->peers : NULL, *gone;
    struct settings *old;
    struct head head = {.last = 0};

    log_head(set->log, &head);
    if (peers && peers->claim)
        upstream_settle(peers->claim, set);
    pthread_mutex_lock(&r->settings_mutex);
    old = set->settings;
    gone = old ? old->peers : NULL;
    set->settings = settings;
    if (peers || gone) {
        set->peers_after = head.last;
        if (!set->is_changed) {
            set->is_changed = true;
            set->next_changed = r->changed;
            r->changed = set;
        }
    }
    pthread_mutex_unlock(&r->settings_mutex);
    if (gone && gone->claim && !(peers && peers->claim == gone->claim))
        upstream_settle(gone->claim, NULL);
    settings_free(old);
    if (set_is_private(set))
        atomic_fetch_add(&r->private_births, 1);
}

void
registry_set_settings(struct set *set, struct settings *settings)
{
    store_rules(set, settings);
    atomic_store(&set->is_unread, false);
    swap_settings(set, settings);
}

void
registry_settings(const struct set *set, struct settings *settings)
{
    struct registry *r = set->registry;

    pthread_mutex_lock(&r->settings_mutex);
    if (set->settings)
        *settings = *set->settings;
    else
        settings_start(settings, r->config);
    settings->peers = NULL;
    pthread_mutex_unlock(&r->settings_mutex);
}

struct link_text
registry_described_by(const struct set *set)
{
    struct registry *r = set->registry;
    struct link_text link = {.size = 0};

    pthread_mutex_lock(&r->settings_mutex);
    if (set->settings)
        link = link_format("%s", set->settings->description);
    pthread_mutex_unlock(&r->settings_mutex);
    return link.size > 0 ? link : set_link(set, LINK_SET);
}

/* Peers */

struct peers *
registry_peers(const struct set *set)
{
    struct registry *r = set->registry;
    struct peers *peers;

    pthread_mutex_lock(&r->settings_mutex);
    peers = peers_ref(set->settings ? set->settings->peers : NULL);
    pthread_mutex_unlock(&r->settings_mutex);
    return peers;
}

struct set *
registry_next_changed(struct registry *r, uint64_t *after)
{
    struct set *set;

    pthread_mutex_lock(&r->settings_mutex);
    set = r->changed;
    if (set) {
        r->changed = set->next_changed;
        set->next_changed = NULL;
        set->is_changed = false;
        *after = set->peers_after;
    }
    pthread_mutex_unlock(&r->settings_mutex);
    return set;
}

/* Reports of harvesters */

bool
registry_sum(const struct set *set, uint64_t *seq, struct id_sum *sum)
{
    struct registry *r = set->registry;

    pthread_mutex_lock(&r->settings_mutex);
    *seq = set->sum_seq;
    *sum = set->sum;
    pthread_mutex_unlock(&r->settings_mutex);
    return *seq > 0;
}

void
registry_set_sum(struct set *set, uint64_t seq, const struct id_sum *sum)
{
    struct registry *r = set->registry;

    pthread_mutex_lock(&r->settings_mutex);
    set->sum_seq = seq;
    set->sum = *sum;
    pthread_mutex_unlock(&r->settings_mutex);
}

bool
registry_checkpoint(const struct set *set, uint64_t upto, struct buf *to,
                    int64_t *us)
{
    struct registry *r = set->registry;
    bool is_there;

    pthread_mutex_lock(&r->settings_mutex);
    is_there = set->checkpoint && load_relaxed(&set->checkpoint_size) <= upto;
    if (is_there) {
        *us = load_relaxed(&set->checkpoint_us);
        buf_add_text(to, set->checkpoint);
    }
    pthread_mutex_unlock(&r->settings_mutex);
    return is_there;
}

void
registry_set_checkpoint(struct set *set, uint64_t size, struct slice text)
{
    struct registry *r = set->registry;
    char *copy = text.size > 0 ? slice_dup(text) : NULL, *former;

    pthread_mutex_lock(&r->settings_mutex);
    former = set->checkpoint;
    set->checkpoint = copy;
    store_relaxed(&set->checkpoint_size, size);
    store_relaxed(&set->checkpoint_us, copy ? clock_steady_us() : 0);
    pthread_mutex_unlock(&r->settings_mutex);
    free(former);
}

/* Few readers have each post proven at once. */
#define SIGNED_A_SECOND 8
#define SECOND_US       INT64_C(1000000)

bool
registry_signed(const struct set *set, const struct head *head, struct buf *to)
{
    struct registry *r = set->registry;
    const struct signed_text *s = &set->signed_text;
    int64_t from_us = clock_steady_us() - SECOND_US;
    struct slice origin;
    bool is_there;

    pthread_mutex_lock(&r->settings_mutex);
    origin = slice_of(s->text);
    is_there = s->us > from_us &&
               slice_ends(slice_take(&origin, '\n'), head->epoch) &&
               (s->size == head->last ||
                (s->second_us > from_us && s->n >= SIGNED_A_SECOND));
    if (is_there)
        buf_add_text(to, s->text);
    pthread_mutex_unlock(&r->settings_mutex);
    return is_there;
}

void
registry_set_signed(struct set *set, uint64_t size, struct slice text)
{
    struct registry *r = set->registry;
    struct signed_text *s = &set->signed_text;
    char *copy = slice_dup(text), *former;

    pthread_mutex_lock(&r->settings_mutex);
    former = s->text;
    s->text = copy;
    s->size = size;
    s->us = clock_steady_us();
    if (s->us - s->second_us >= SECOND_US) {
        s->second_us = s->us;
        s->n = 0;
    }
    s->n++;
    pthread_mutex_unlock(&r->settings_mutex);
    free(former);
}

struct harvest *
registry_harvest(const struct set *set)
{
    struct registry *r = set->registry;
    struct harvest *harvest;

    pthread_mutex_lock(&r->settings_mutex);
    harvest = harvest_ref(set->harvest);
    pthread_mutex_unlock(&r->settings_mutex);
    return harvest;
}

void
registry_set_harvest(struct set *set, struct harvest *harvest)
{
    struct registry *r = set->registry;
    struct harvest *former;

    pthread_mutex_lock(&r->settings_mutex);
    former = set->harvest;
    set->harvest = harvest;
    pthread_mutex_unlock(&r->settings_mutex);
    harvest_unref(former);
}

/* Restores a report from the log; an empty `text` is none. Without one that
 * this broker cannot read the set is as before. The start, or the log
 * thread. */
static void
restore_harvest(struct set *set, struct slice text)
{
    struct harvest *harvest = NULL;
    struct problem why = {""};

    if (text.size > 0 && harvest_read(&harvest, text, &why))
        diag(DIAG_WARNING, "sets", "the harvest of %s cannot be read: %s",
             set->name, why.text);
    registry_set_harvest(set, harvest);
}

/* Upstream topics */

enum status
registry_claim_upstream(struct registry *r, const char *name,
                        struct peers *peers, struct problem *why)
{
    char owner[UPSTREAM_OWNER_MAX + 1];
    struct problem inner = {""};
    enum status rc;

    if (!peers || !peers->upstream)
        return STATUS_OK;
    snprintf(owner, sizeof(owner), "set %s", name);
    rc = upstreams_claim(&r->upstreams, slice_of(peers->upstream), owner,
                         &peers->claim, &inner);
    return rc ? problem(why, rc, "upstreamTopic: %s", inner.text) : rc;
}

/* As settings_write writes it. */
#define PRIVATE "\"private\":true"

/* Restores the settings of a set from the log: `text`, and the limits of lists
 * in them. Settings that this broker cannot read may keep what its options
 * delete; it serves the set all the same, and a private one as such. The start,
 * or the log thread. */
static void
restore_settings(struct set *set, struct slice text, struct list_limits *limits)
{
    struct settings *settings = memory_new(1, sizeof(*settings));
    struct settings keeping;
    struct problem why = {""};

    if (settings_read(settings, set->registry->config, text, false, &why)) {
        settings_free(settings);
        diag(DIAG_WARNING, "sets",
             "the settings of %s cannot be read, so the broker keeps all of "
             "the set: %s",
             set->name, why.text);
        settings_start(&keeping, set->registry->config);
        keeping.retention.lists = 0;
        keeping.retention.age_us = 0;
        keeping.resource_list_every_us = keeping.resource_dump_every_us = 0;
        store_rules(set, &keeping);
        atomic_store(&set->is_unread, true);
        if (slice_find(text, PRIVATE))
            set_mark_private(set, true);
        return;
    }
    if (registry_claim_upstream(set->registry, set->name, settings->peers,
                                &why))
        diag(DIAG_WARNING, "sets",
             "the set %s gets no changes of its topic: %s", set->name,
             why.text);
    *limits = settings->limits;
    set_mark_private(set, settings->is_private);
    registry_set_settings(set, settings);
}

/* NULL is allowed. */
static void
set_free(struct set *set)
{
    if (!set)
        return;
    set_kept(set, 0);
    holding_end(&set->place);
    holding_end(&set->name_place);
    harvest_unref(set->harvest);
    free(set->checkpoint);
    free(set->signed_text.text);
    free(set);
}

static struct set *
set_with_log(struct set *set, struct log_set *log)
{
    set->log = log;
    set->name = log_set_name(log);
    return set;
}

/* Sets */

/* Adds a set; the caller holds the lock for writing, or is the only thread yet.
 * NULL, and the set freed: no memory for a larger table. */
static struct set *
insert_set(struct registry *r, struct set *set)
{
    if (table_add(&r->sets, set->name, set)) {
        set_free(set);
        return NULL;
    }
    r->n_made++;
    return set;
}

/* Remembers that the set of that name was removed; likewise. NULL: no memory
 * for a larger table. */
static struct tombstone *
bury_set(struct registry *r, const char *name, uint64_t list)
{
    struct tombstone *t = table_find(&r->tombstones, slice_of(name));

    if (!t) {
        t = memory_new(1, sizeof(*t));
        snprintf(t->name, sizeof(t->name), "%s", name);
        if (table_add(&r->tombstones, t->name, t)) {
            free(t);
            return NULL;
        }
    }
    t->list = list;
    return t;
}

static enum status
on_removed(const char *name, uint64_t list, struct slice creator, void *user)
{
    struct registry *r = user;
    struct client *client = client_of_stored(&r->clients, creator);
    struct tombstone *t = bury_set(r, name, list);

    r->n_made++;
    if (t)
        holding_restore(&t->name_place, &r->clients, client, CLIENT_SET_NAMES,
                        1);
    client_unref(client);
    return t ? STATUS_OK : STATUS_MEMORY;
}

/* Makes the set of the framework log. For any options, it ends its lists by
 * number of entries alone and retains a fixed number of lists. */
static struct set *
new_framework(struct registry *r, struct list_limits *limits)
{
    struct set *set = set_new(r);

    atomic_init(&set->rotate_age_us, 0);
    atomic_init(&set->retain_lists, FRAMEWORK_LISTS);
    atomic_init(&set->retain_age_us, 0);
    *limits = (struct list_limits){FRAMEWORK_ENTRIES, DOCUMENT_BYTES_MAX};
    return set;
}

/* Makes the framework log in a directory without one. */
static enum status
make_framework(struct registry *r, struct problem *why)
{
    struct post post = {.kind = POST_SETTINGS};
    enum status rc;

    r->framework = new_framework(r, &post.limits);
    set_with_log(r->framework,
                 log_set_new(r->log, FRAMEWORK_NAME, 0, r->framework));
    post.set = r->framework->log;
    rc = log_post_and_wait(r->log, &post, why);
    /* With a full disk the broker must still start: the log then begins with
     * the first event. */
    return rc == STATUS_BUSY ? STATUS_OK : rc;
}

/* Gives a set the places of its creator, which no limit refuses. */
static void
restore_places(struct registry *r, struct set *set, struct slice creator)
{
    struct client *client = client_of_stored(&r->clients, creator);

    holding_restore(&set->place, &r->clients, client, CLIENT_SETS, 1);
    holding_restore(&set->name_place, &r->clients, client, CLIENT_SET_NAMES, 1);
    client_unref(client);
}

static void *
on_set(struct log_set *log, struct slice text, struct slice harvest,
       struct list_limits *limits, void *user)
{
    struct registry *r = user;
    struct slice name = slice_of(log_set_name(log));
    struct set *set;

    if (slice_is(name, FRAMEWORK_NAME)) {
        r->framework = set_with_log(new_framework(r, limits), log);
        return r->framework;
    }
    set = insert_set(r, set_with_log(set_new(r), log));
    if (!set)
        return NULL;
    restore_places(r, set, log_set_creator(log));
    restore_harvest(set, harvest);
    if (text.size > 0)
        restore_settings(set, text, limits);
    set->peers_after = PEERS_AFTER_UNKNOWN; /* no other thread yet */
    return set;
}

static void
on_header(struct log_set *set, const struct head *head,
          const struct list_info *info, struct buf *header, void *user)
{
    struct registry *r = user;

    changelist_header_write(header, r->options.public_url, log_set_name(set),
                            head, info);
}

static enum status
on_acts(const struct act *acts, size_t n, struct post **post, void *user)
{
    struct registry *r = user;

    for (size_t i = 0; i < n; i++) {
        struct set *set;
        uint64_t before;

        if (acts[i].kind == ACT_EPOCH) /* what streams get is of another */
            registry_set_checkpoint(log_set_owner(acts[i].set), 0, SLICE(""));
        if (acts[i].kind != ACT_BATCH)
            continue;
        set = log_set_owner(acts[i].set);
        rates_count(r->rates, set, acts[i].entries.batch->n_entries);
        if (set == r->framework)
            continue;
        before = add_relaxed(&set->kept, acts[i].entries.batch->size);
        change_kept(set, before, before + acts[i].entries.batch->size);
    }
    return r->options.on_acts
               ? r->options.on_acts(r->options.announcer, r, acts, n, post)
               : STATUS_OK;
}

/* Acts of other brokers */

/* Finds the set of that name, if this broker has made one, or makes it, which
 * no limit refuses: it has begun elsewhere. NULL: no memory for a larger table.
 * A private set is marked before the commit: no thread finds it as a public
 * one. */
static struct log_set *
on_foreign(const struct act *act, void *user)
{
    struct registry *r = user;
    struct slice name = slice_of(act->name), creator = {NULL, 0};
    const struct tombstone *t;
    struct set *set;

    if (!strcmp(act->name, FRAMEWORK_NAME))
        return r->framework->log;
    if (act->kind == ACT_BIRTH)
        creator = act->birth.creator;
    pthread_rwlock_wrlock(&r->lock);
    set = table_find(&r->sets, name);
    if (!set) {
        set = set_new(r);
        t = table_find(&r->tombstones, name);
        restore_places(r, set, creator);
        set_with_log(set, log_set_new(r->log, act->name, t ? t->list : 0, set));
        set = insert_set(r, set);
    }
    pthread_rwlock_unlock(&r->lock);
    if (set && act->kind == ACT_SETTINGS &&
        slice_find(act->settings.text, PRIVATE))
        set_mark_private(set, true);
    return set ? set->log : NULL;
}

static void
on_followed(const struct act *acts, size_t n, void *user)
{
    struct registry *r = user;
    bool is_changed = false;

    if (r->options.on_followed)
        r->options.on_followed(r->options.announcer, r, acts, n);
    for (size_t i = 0; i < n; i++) {
        struct set *set = log_set_owner(acts[i].set);
        struct list_limits limits = {0, 0};

        if (set == r->framework)
            continue;
        if (acts[i].kind == ACT_BATCH)
            rates_count(r->rates, set, acts[i].entries.batch->n_entries);
        else if (acts[i].kind == ACT_CONTENT)
            atomic_store(&set->has_facts, true);
        else if (acts[i].kind == ACT_EPOCH)
            registry_set_checkpoint(set, 0, SLICE(""));
        else if (acts[i].kind == ACT_HARVEST)
            restore_harvest(set, acts[i].harvest.text);
        else if (acts[i].kind == ACT_REMOVAL)
            registry_set_removed(set);
        else if (acts[i].kind == ACT_SETTINGS) {
            restore_settings(set, acts[i].settings.text, &limits);
            log_set_limit(set->log, &limits);
        }
        is_changed |=
            acts[i].kind == ACT_SETTINGS || acts[i].kind == ACT_REMOVAL;
    }
    if (is_changed)
        registry_notify_changed(r);
}

/* Bytes of pages of change memory for clients that read slowly: about a hundred
 * of the largest pages. Beyond that the broker answers 503. */
#define ANSWERS_BYTES ((uint64_t)128 << 20)

/* Bytes that the kernel holds for clients: of one that reads nothing up to 448
 * KB (net/tcp.h), so 600 connections of one client have them unread. */
#define KERNEL_BYTES ((uint64_t)1 << 30)

/* The limit of CLIENT_DISK depends on the room on the disk: contents.c
 * sets it for each post. */
static void
limit_clients(struct clients *c, const struct config *config)
{
    clients_init(c, (unsigned)config->client_share);
    clients_limit_each(c, CLIENT_CONNECTIONS, config->client_connections);
    clients_limit_each(c, CLIENT_HALF_HEADS, config->client_half_heads);
    clients_limit_each(c, CLIENT_STREAMS, config->client_streams);
    clients_limit_each(c, CLIENT_FOLLOWED, config->client_followed);
    clients_limit_rate(c, CLIENT_POST_RATE, config->client_post_rate);
    clients_limit_rate(c, CLIENT_BYTE_RATE, config->client_byte_rate);
    clients_limit_all(c, CLIENT_POSTS, config->ingest_bytes);
    clients_limit_all(c, CLIENT_ANSWERS, ANSWERS_BYTES);
    clients_limit_all(c, CLIENT_EFFORTS, 256);
    clients_limit_all(c, CLIENT_FILTERS, FILTERS_MAX);
    clients_limit_all(c, CLIENT_KERNEL, KERNEL_BYTES);
    clients_limit_each(c, CLIENT_KEYS, config->client_keys);
}

enum status
registry_open(struct registry **registry,
              const struct registry_options *options, struct problem *why)
{
    const struct config *config = options->config;
    struct registry *r = memory_new(1, sizeof(*r));
    struct log_options log_options = {
        .dir = config->data,
        .open_engine = options->open_engine,
        .limits = {config->rotate_entries, config->rotate_bytes},
        .tail_bytes = config->tail_bytes,
        .unfiled_bytes = config->unfiled_bytes,
        .linger_us = config->linger_us,
        .on_set = on_set,
        .on_removed = on_removed,
        .on_header = on_header,
        .on_acts = on_acts,
        .journal = options->journal,
        .on_foreign = on_foreign,
        .on_followed = on_followed,
        .user = r,
        .on_closed = options->on_closed,
        .on_certain = options->on_certain,
        .wake_user = options->user,
    };
    enum status rc;

    r->rates = rates_new();
    if (!r->rates) {
        free(r);
        return problem_memory(why);
    }
    r->options = *options;
    r->config = config;
    r->first_bridging = (struct bridging){config->bridges, config->n_bridges};
    atomic_init(&r->bridging, &r->first_bridging);
    pthread_rwlock_init(&r->lock, NULL);
    pthread_mutex_init(&r->settings_mutex, NULL);
    pthread_mutex_init(&r->upstreams.mutex, NULL);
    limit_clients(&r->clients, config);
    filters_init(&r->filters, &r->clients);
    rc = log_open(&r->log, &log_options, why);
    if (!rc && !r->framework)
        rc = make_framework(r, why);
    if (rc) {
        registry_close(r);
        return rc;
    }
    /* The stored sets have their places, also beyond a lower limit. */
    clients_limit_each(&r->clients, CLIENT_SETS, config->client_sets);
    clients_limit_all(&r->clients, CLIENT_SET_NAMES, SETS_MADE_MAX);
    if (config->client_kept_bytes)
        clients_limit_each(&r->clients, CLIENT_KEPT, config->client_kept_bytes);
    *registry = r;
    return STATUS_OK;
}

void
registry_close(struct registry *r)
{
    if (!r)
        return;
    log_close(r->log);
    for (size_t i = 0; i < r->sets.n; i++) {
        struct set *set = r->sets.rows[i].thing;

        settings_free(set->settings);
        set_free(set);
    }
    for (size_t i = 0; i < r->tombstones.n; i++) {
        struct tombstone *t = r->tombstones.rows[i].thing;

        holding_end(&t->name_place);
        free(t);
    }
    while (r->removed) {
        struct set *set = r->removed;

        r->removed = set->next_removed;
        set_free(set);
    }
    set_free(r->framework);
    rates_free(r->rates);
    checkpoint_keys_close(r->checkpoint_keys);
    free(r->tombstones.rows);
    free(r->sets.rows);
    pthread_mutex_destroy(&r->filters.mutex);
    clients_fini(&r->clients);
    upstreams_fini(&r->upstreams);
    pthread_mutex_destroy(&r->settings_mutex);
    pthread_rwlock_destroy(&r->lock);
    free(r);
}

const struct bridging *
registry_bridging(const struct registry *r)
{
    return atomic_load_explicit(&r->bridging, memory_order_acquire);
}

void
registry_set_bridging(struct registry *r, const struct bridging *bridging)
{
    /* Release: a thread that reads the pointer also reads the sections. */
    atomic_store_explicit(&r->bridging, bridging, memory_order_release);
}

struct link_text
registry_link(const struct registry *r, enum link_kind kind)
{
    return link_to(r->options.public_url, kind, NULL, NULL, 0);
}

struct link_text
set_link(const struct set *set, enum link_kind kind)
{
    return link_to(set->registry->options.public_url, kind, set->name, NULL, 0);
}

struct file_path
set_path(const struct set *set, const char *file)
{
    return file_path("%s/sets/%s%s%s", set->registry->config->data, set->name,
                     file[0] ? "/" : "", file);
}

bool
set_is_small(const struct set *set, const struct head *head)
{
    return head->last < set->registry->options.few_entries &&
           head->list_bytes + head->file_bytes <= SET_FEW_BYTES &&
           head->earliest == 0 &&
           head->generations[GENERATION_RESOURCELIST].current.number == 0 &&
           !load_relaxed(&set->is_long);
}

int64_t
set_first_build(const struct head *head, int64_t every_us)
{
    return head->created_us +
           (every_us < SET_FIRST_BUILD_US ? every_us : SET_FIRST_BUILD_US);
}

bool
set_offers(struct set *set, const struct head *head, enum generation_kind kind)
{
    int64_t every_us = load_relaxed(&set->resource_list_every_us);

    if (head->generations[kind].current.number > 0 ||
        head_lacks_build(head, kind)) /* which is being built */
        return true;
    if (kind != GENERATION_RESOURCELIST || head->earliest > 0)
        return false;
    if (head->last > 0 && set_is_small(set, head) && every_us > 0 &&
        clock_now_us() >= set_first_build(head, every_us))
        store_relaxed(&set->is_listed, true);
    return load_relaxed(&set->is_listed);
}

enum content_mode
set_content_mode(const struct set *set)
{
    return (enum content_mode)load_relaxed(&set->content);
}

enum content_mode
registry_content(struct registry *r, struct slice name)
{
    const struct set *set = registry_find(r, name, NULL);

    return set ? set_content_mode(set) : r->config->content;
}

/* One look, under the lock: between two looks the set could be removed, or made
 * again. */
struct set *
registry_look(struct registry *r, struct slice name, struct head *head,
              bool *was_removed)
{
    struct head now = {.exists = false};
    struct set *set;

    pthread_rwlock_rdlock(&r->lock);
    set = table_find(&r->sets, name);
    if (set)
        log_head(set->log, &now);
    /* The log publishes a removal a moment before it calls the registry: then
     * the set counts as removed, and until it is made again, too. */
    if (was_removed)
        *was_removed =
            !now.exists && (now.is_removed || table_find(&r->tombstones, name));
    pthread_rwlock_unlock(&r->lock);
    if (head)
        *head = now;
    return now.exists ? set : NULL;
}

struct set *
registry_find(struct registry *r, struct slice name, struct head *head)
{
    return registry_look(r, name, head, NULL);
}

static enum status
registry_full(struct problem *why)
{
    return problem(why, STATUS_INVALID,
                   "this broker has no room for another set: it holds %d at "
                   "most, and remembers %d that it made or removed",
                   SETS_MAX, SETS_MADE_MAX);
}

enum status
registry_make(struct registry *r, struct slice name, struct client *client,
              struct set **set, struct problem *why)
{
    char text[SET_NAME_MAX + 1] = "", creator[CLIENT_STORED_SIZE];
    const struct tombstone *t;
    struct set *made, *removed = *set;
    enum status rc = STATUS_OK;

    *set = NULL;
    if (name.size > SET_NAME_MAX)
        return problem(why, STATUS_INVALID, "the name is too long");
    pthread_rwlock_wrlock(&r->lock);
    *set = table_find(&r->sets, name);
    if (*set && *set != removed)
        goto out;
    /* The removed one again: there was no memory to bury it. */
    if (*set || r->sets.n >= SETS_MAX || r->n_made >= SETS_MADE_MAX) {
        rc = registry_full(why);
        goto out;
    }
    made = set_new(r);
    holding_init(&made->place, &r->clients, client, CLIENT_SETS);
    holding_init(&made->name_place, &r->clients, client, CLIENT_SET_NAMES);
    rc = holding_add(&made->place, 1, why);
    if (!rc)
        rc = holding_add(&made->name_place, 1, why);
    if (rc) {
        set_free(made);
        goto out;
    }
    t = table_find(&r->tombstones, name);
    memcpy(text, name.data, name.size);
    set_with_log(made, log_set_new(r->log, text, t ? t->list : 0, made));
    log_set_begin_for(made->log, client_store(client, creator));
    *set = insert_set(r, made);
    if (!*set)
        rc = problem_memory(why);

out:
    pthread_rwlock_unlock(&r->lock);
    return rc;
}

/* Room
 *
 * Whoever has created a set keeps it. The set's place has the client until the
 * removal, under the lock. */

enum status
registry_check_room(struct registry *r, struct slice name,
                    struct client *client, uint64_t bytes, struct problem *why)
{
    enum status rc = STATUS_OK;
    const struct set *set;
    struct client *owner;

    pthread_rwlock_rdlock(&r->lock);
    set = table_find(&r->sets, name);
    owner = set ? set->place.client : client;
    if (!set && (r->sets.n >= SETS_MAX || r->n_made >= SETS_MADE_MAX))
        rc = registry_full(why);
    if (!set && !rc)
        rc = clients_check(&r->clients, client, CLIENT_SETS, 1, why);
    if (!set && !rc)
        rc = clients_check(&r->clients, client, CLIENT_SET_NAMES, 1, why);
    if (!rc) {
        rc = clients_check(&r->clients, owner, CLIENT_KEPT, bytes, why);
        if (rc && owner != client)
            rc = problem(why, rc,
                         "the set is full: the client that has created it "
                         "keeps as many bytes as one client may "
                         "(--client-kept-bytes): %" PRIu64,
                         clients_limit_of_each(&r->clients, CLIENT_KEPT));
    }
    pthread_rwlock_unlock(&r->lock);
    return rc;
}

/* What a set takes of the disk at least: a folder, and a file. */
#define SET_BYTES 8192

static bool
count_kept(struct set *set, const struct head *head, void *user)
{
    struct registry *r = user;
    uint64_t bytes = SET_BYTES + head->list_bytes + head->file_bytes +
                     load_relaxed(&set->content_counts.bytes) +
                     load_relaxed(&set->records.bytes);

    /* Archived builds count as much as the current one. */
    for (int kind = 0; kind < GENERATION_KINDS; kind++) {
        const struct generations *g = &head->generations[kind];

        bytes += g->current.bytes * (g->n_archived ? g->n_archived : 1);
    }
    pthread_rwlock_rdlock(&r->lock);
    if (set->place.clients)
        set_kept(set, bytes);
    pthread_rwlock_unlock(&r->lock);
    return true;
}

void
registry_count_kept(struct registry *r, uint64_t room)
{
    const struct config *config = r->config;

    registry_each(r, count_kept, r);
    if (!config->client_kept_bytes && config->client_share < 100)
        clients_limit_each(&r->clients, CLIENT_KEPT,
                           (room + clients_held(&r->clients, CLIENT_KEPT)) /
                               100 * (100 - config->client_share));
}

size_t
registry_count(struct registry *r)
{
    size_t n;

    pthread_rwlock_rdlock(&r->lock);
    n = r->sets.n;
    pthread_rwlock_unlock(&r->lock);
    return n;
}

size_t
registry_count_public(struct registry *r)
{
    return registry_count(r) - atomic_load(&r->n_private);
}

void
registry_set_removed(struct set *set)
{
    struct registry *r = set->registry;
    struct set_table *sets = &r->sets;
    struct head head;
    size_t place;

    log_head(set->log, &head);
    pthread_rwlock_wrlock(&r->lock);
    /* Without memory for a larger table of tombstones the set stays where it
     * is: it does not exist, but its name is not free before the next start. */
    if (bury_set(r, set->name, head.list + 1)) {
        place = table_place(sets, slice_of(set->name));
        if (place < sets->n && sets->rows[place].thing == set)
            memmove(&sets->rows[place], &sets->rows[place + 1],
                    (--sets->n - place) * sizeof(*sets->rows));
        if (set_is_private(set))
            atomic_fetch_sub(&r->n_private, 1);
        set->next_removed = r->removed;
        r->removed = set;
        set_kept(set, 0);
        holding_end(&set->place);
    }
    pthread_rwlock_unlock(&r->lock);
    swap_settings(set, NULL);
    registry_set_harvest(set, NULL);
    registry_set_checkpoint(set, 0, SLICE(""));
    rates_forget(r->rates, set);
}

void
registry_notify_changed(struct registry *r)
{
    if (r->options.on_changed)
        r->options.on_changed(r->options.user);
}

/* Sets that registry_each reads under one lock. Their memory lasts as long as
 * the registry's, and the array needs none: without it a Source Description
 * would name no set, and a follower of a pattern would wait for ever. */
#define EACH_AT_ONCE 64

void
registry_each(struct registry *r,
              bool (*fn)(struct set *set, const struct head *head, void *user),
              void *user)
{
    struct set *sets[EACH_AT_ONCE];
    struct slice after = {NULL, 0};
    size_t n;

    do {
        n = 0;
        pthread_rwlock_rdlock(&r->lock);
        for (size_t i = table_place(&r->sets, after);
             i < r->sets.n && n < EACH_AT_ONCE; i++) {
            struct set *set = r->sets.rows[i].thing;

            if (!slice_is(after, set->name))
                sets[n++] = set;
        }
        pthread_rwlock_unlock(&r->lock);
        for (size_t i = 0; i < n; i++) {
            struct head head;

            if (log_head(sets[i]->log, &head) && !fn(sets[i], &head, user))
                return;
        }
        if (n > 0)
            after = slice_of(sets[n - 1]->name);
    } while (n == EACH_AT_ONCE);
}

bool
registry_page(struct registry *r, struct slice after,
              const struct principal *principal, struct set **sets,
              struct head *heads, size_t *n)
{
    size_t max = *n;
    bool is_more = false;

    *n = 0;
    pthread_rwlock_rdlock(&r->lock);
    for (size_t i = table_place(&r->sets, after); i < r->sets.n; i++) {
        struct set *set = r->sets.rows[i].thing;
        struct head head;

        if (slice_is(after, set->name) ||
            (principal && !(set_is_visible(set, principal) &&
                            rights_include(&principal->rights, RIGHTS_OF_SETS,
                                           slice_of(set->name)))) ||
            !log_head(set->log, &head))
            continue;
        is_more = *n == max;
        if (is_more)
            break;
        heads[*n] = head;
        sets[(*n)++] = set;
    }
    pthread_rwlock_unlock(&r->lock);
    return is_more;
}

struct set_sums {
    int64_t n;
    int64_t content_bytes;
};

static bool
add_set(struct set *set, const struct head *head, void *user)
{
    struct set_sums *sums = user;

    (void)head;
    sums->n++;
    sums->content_bytes += (int64_t)load_relaxed(&set->content_counts.bytes);
    return true;
}

void
registry_measure(struct registry *r)
{
    struct log_health health;
    struct log_copy copy;
    struct set_sums sums = {0, 0};

    log_copy(r->log, &copy);
    metrics_set(METRIC_CLUSTER_CUT_OFF, copy.is_cut_off);
    metrics_set(METRIC_CLUSTER_UNABLE, copy.state != COPY_CERTAIN);
    metrics_set(METRIC_CLUSTER_PLACE, (int64_t)copy.place);
    metrics_set(METRIC_CLUSTER_BEHIND, (int64_t)copy.behind);
    metrics_set(METRIC_CLUSTER_AGE, copy.age_us);
    registry_each(r, add_set, &sums);
    metrics_set(METRIC_SETS, sums.n);
    metrics_set_label(METRIC_DISK, DISK_CONTENT, sums.content_bytes);
    metrics_set(METRIC_INGEST,
                (int64_t)clients_held(&r->clients, CLIENT_POSTS));
    metrics_set(METRIC_INGEST_LIMIT, (int64_t)r->config->ingest_bytes);
    metrics_set(METRIC_TAIL_LIMIT, (int64_t)r->config->tail_bytes);
    metrics_set(METRIC_UNFILED_LIMIT, (int64_t)r->config->unfiled_bytes);
    log_health(r->log, &health);
    metrics_set(METRIC_LOG_AHEAD, health.ahead_us);
}
