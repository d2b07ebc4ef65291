#include "broker/sets/framework_events.h"

#include "base/array.h"
#include "broker/sets/index_parts.h"
#include "broker/sets/set_links.h"
#include "broker/sets/settings.h"
#include "broker/sets/source_description.h"

/* Channels */

struct log_set *
channel_log(const struct set *set, bool is_framework)
{
    return is_framework ? set->registry->framework->log : set->log;
}

enum status
channel_filter(struct filter_class *class, const char *name,
               struct problem *why)
{
    char tag[sizeof(CHANNEL_TAG_SET) + SET_NAME_MAX];
    enum status rc;

    snprintf(tag, sizeof(tag), CHANNEL_TAG_SET "%s", name);
    filter_class_alone(class);
    rc = filter_add(&class->filter, SLICE("tag"), slice_of(tag), why);
    if (!rc)
        rc = filter_add(&class->filter, SLICE("tag"), SLICE(CHANNEL_TAG_SOURCE),
                        why);
    return rc ? rc : filter_seal(&class->filter, why);
}

/* Announcements */

/* Of the log thread. */
struct announcer {
    struct registry *registry;
    struct post round;       /* the events of a round */
    struct set **about;      /* of each fragment; NULL: the Source */
    size_t room, about_room; /* of the fragments, and of these */
    enum status status;      /* of the first event that could not be added */
    struct set *set;         /* of the acts at hand; NULL: the Source */
    uint64_t index_lists;    /* --index-lists */
    struct source_changes changes;
};

/* Adds the event of a document; `loc` is never that of an index.
 * `index`: the index above it; NULL: none. */
static void
add_document(struct announcer *a, enum change_kind change,
             enum capability capability, struct link_text loc,
             const struct link_text *index)
{
    size_t n = a->round.n_fragments;
    char tag[sizeof(CHANNEL_TAG_SET) + SET_NAME_MAX] = CHANNEL_TAG_SOURCE;
    struct link link = {
        .rel = SLICE("index"),
        .modified_us = DATETIME_NONE,
        .length = LENGTH_NONE,
    };
    struct change event;

    if (a->set)
        snprintf(tag, sizeof(tag), CHANNEL_TAG_SET "%s", a->set->name);
    change_init(&event);
    event.loc = link_slice(&loc);
    event.kind = change;
    event.capability = slice_of(capability_names[capability]);
    event.tags = slice_of(tag);
    if (index) {
        link.href = link_slice(index);
        event.links = &link;
        event.n_links = 1;
    }
    if (!ONE_MORE(a->round.fragments, &a->room, n) ||
        !ONE_MORE(a->about, &a->about_room, n) ||
        fragment_write(&a->round.bytes, &event, &a->round.fragments[n], NULL))
        a->status = STATUS_MEMORY;
    else
        a->about[a->round.n_fragments++] = a->set;
}

static void
add_capability_list(struct announcer *a, enum change_kind change)
{
    add_document(a, change, CAP_CAPABILITYLIST,
                 set_link(a->set, LINK_CAPABILITYLIST), NULL);
}

/* A source_announce_fn. */
static void
add_source(void *user, enum change_kind change, struct link_text loc,
           const struct link_text *index)
{
    add_document(user, change, CAP_DESCRIPTION, loc, index);
}

/* A numbered list. Its index is that of the fixed address, which is one from
 * the first closed list on, and so is never announced. */
static void
add_list(struct announcer *a, enum change_kind change, uint64_t number)
{
    struct link_text index = set_link(a->set, LINK_CHANGELIST);

    add_document(a, change, CAP_CHANGELIST,
                 link_to(a->set->registry->options.public_url, LINK_LIST,
                         a->set->name, NULL, number),
                 &index);
}

static const struct kind_names changelists = {
    LINK_LISTS, "Change List", CAP_CHANGELIST, CAP_CHANGELIST_ARCHIVE};

/* An archive: of generations, or of Change Lists; with `parts`, its part that
 * begins with the number `begin`. */
static void
add_archive(struct announcer *a, const struct kind_names *names,
            enum change_kind change, const struct parts *parts, uint64_t begin)
{
    struct link_text archive = link_format("%s/sets/%s/%s" LINK_ARCHIVE,
                                           a->registry->options.public_url,
                                           a->set->name, names->folder);

    add_document(a, change, names->archive,
                 parts ? set_link_range(a->set, names->folder, begin,
                                        begin + parts->size - 1)
                       : archive,
                 parts ? &archive : NULL);
}

/* Announces the lists that a round closed one after the other, up to number
 * `last`: the first was there before, each other one began when its predecessor
 * ended. The archive begins with the first list. With too many lists for one
 * document, its address is that of an index, and the parts are new
 * documents. */
static void
add_closed_lists(struct announcer *a, const struct act *first, uint64_t last)
{
    uint64_t oldest = first->list_end.first_list;
    uint64_t from = first->list_end.info.number;
    struct parts before = parts_of(oldest, from, a->index_lists);
    struct parts now = parts_of(oldest, last + 1, a->index_lists);
    uint64_t begin = parts_begin(&now, before.has_index ? from : oldest);

    add_list(a, CHANGE_UPDATED, from);
    for (uint64_t number = from + 1; number <= last + 1; number++)
        add_list(a, CHANGE_CREATED, number);
    if (!now.has_index)
        add_archive(a, &changelists,
                    from == oldest ? CHANGE_CREATED : CHANGE_UPDATED, NULL, 0);
    for (; now.has_index && begin <= last; begin += now.size)
        add_archive(a, &changelists,
                    before.has_index && begin < from ? CHANGE_UPDATED
                                                     : CHANGE_CREATED,
                    &now, begin);
    if (from == oldest) /* now it names the archive */
        add_capability_list(a, CHANGE_UPDATED);
}

/* Lists went. What had only such lists is not there any more; the Capability
 * List says so of the archive, the index of a part. */
static void
add_retirement(struct announcer *a, const struct act *act)
{
    uint64_t first_list = act->retirement.last + 1;
    struct parts parts =
        parts_of(first_list, act->retirement.open_list, a->index_lists);
    uint64_t begin = parts_begin(&parts, first_list);

    if (first_list == act->retirement.open_list)
        add_capability_list(a, CHANGE_UPDATED);
    else if (!parts.has_index)
        add_archive(a, &changelists, CHANGE_UPDATED, NULL, 0);
    else if (begin < first_list)
        add_archive(a, &changelists, CHANGE_UPDATED, &parts, begin);
}

/* Returns the number of the first archived generation from `number` on, as the
 * archive was before the round; 0: there was none. */
static uint64_t
find_archived(struct announcer *a, enum generation_kind kind, uint64_t number)
{
    struct generation generation;
    struct generation_page page = {kind, number, &generation, 1};
    enum status rc =
        log_generations(a->set->registry->log, a->set->log, &page, NULL);

    if (rc)
        a->status = rc;
    return !rc && page.n == 1 ? generation.number : 0;
}

/* Announces that the archive got a generation: the archive while it is one
 * document, else the part that has the generation, never the index.
 * Where an index begins, all its parts begin; parts without a generation do not
 * exist. */
static void
add_archived(struct announcer *a, const struct act *act)
{
    const struct generation *g = &act->generation.build;
    uint64_t n = act->generation.n_archived;
    struct parts before =
        parts_of_generations(n - 1, g->number - 1, a->index_lists);
    struct parts now = parts_of_generations(n, g->number, a->index_lists);
    uint64_t begin = parts_begin(&now, g->number), next = 1;

    if (!now.has_index) {
        add_archive(a, &links_kinds[g->kind],
                    n == 1 ? CHANGE_CREATED : CHANGE_UPDATED, NULL, 0);
    } else if (before.has_index && before.size == now.size) {
        add_archive(a, &links_kinds[g->kind],
                    find_archived(a, g->kind, begin) ? CHANGE_UPDATED
                                                     : CHANGE_CREATED,
                    &now, begin);
    } else {
        while (next <= g->number) {
            uint64_t number = find_archived(a, g->kind, next);

            begin = parts_begin(&now, number ? number : g->number);
            add_archive(a, &links_kinds[g->kind], CHANGE_CREATED, &now, begin);
            next = begin + now.size;
        }
    }
}

/* Announces that the oldest generations left the archive. A part without any
 * left is not announced: R-323 has no `deleted` for it. */
static void
add_unarchived(struct announcer *a, const struct act *act)
{
    enum generation_kind kind = act->unarchived.kind;
    uint64_t oldest = act->unarchived.first_archived;
    struct parts now = parts_of_generations(
        act->unarchived.n_archived, act->unarchived.last, a->index_lists);
    uint64_t begin = parts_begin(&now, oldest);

    if (!now.has_index)
        add_archive(a, &links_kinds[kind], CHANGE_UPDATED, NULL, 0);
    else if (find_archived(a, kind, begin) != oldest)
        add_archive(a, &links_kinds[kind], CHANGE_UPDATED, &now, begin);
}

/* A list or dump was built. The first of its kind brings itself, or the
 * archive, into the Capability List. */
static void
add_generation(struct announcer *a, const struct act *act)
{
    const struct generation *g = &act->generation.build;
    enum capability capability = links_kinds[g->kind].capability;
    bool is_first = act->generation.is_first;
    struct link_text current = set_link_kind(a->set, g->kind, LINK_CURRENT);
    struct link_text own = set_link_generation(a->set, g->kind, g->number);

    if (g->kind == GENERATION_CHANGEDUMP)
        /* It is a document of its own behind those that there are; the first is
         * at the fixed address, which is that of an index from the second
         * on. */
        add_document(a, CHANGE_CREATED, capability, is_first ? current : own,
                     is_first ? NULL : &current);
    else if (g->kind == GENERATION_RESOURCEDUMP)
        /* It never changes, nor does what is at its own address: each one is a
         * document that begins, and the fixed address leads to the latest
         * (R-323). */
        add_document(a, CHANGE_CREATED, capability, own, NULL);
    else if (g->parts > 1)
        for (uint64_t part = 1; part <= g->parts; part++)
            add_document(
                a, CHANGE_CREATED, capability,
                set_link_part(a->set, g->kind, g->number, part, LINK_PART),
                &own);
    else
        add_document(a, is_first ? CHANGE_CREATED : CHANGE_UPDATED, capability,
                     current, NULL);
    if (g->is_archived)
        add_archived(a, act);
    if (is_first || (g->is_archived && act->generation.n_archived == 1))
        add_capability_list(a, CHANGE_UPDATED);
}

/* True if these settings change the description of the set in documents (R-046,
 * Compares with the committed settings in the registry: two
 * changes of one round that cancel out are announced, though no reader could
 * see them. */
static bool
describes_otherwise(struct announcer *a, const struct act *act)
{
    struct peers *peers = registry_peers(a->set);
    struct settings *settings = memory_new(1, sizeof(*settings));
    struct settings now;
    bool is_other = false;

    registry_settings(a->set, &now);
    if (!settings_read(settings, a->set->registry->config, act->settings.text,
                       false, NULL))
        is_other = strcmp(now.description, settings->description) != 0 ||
                   !peers_have_same_hubs(peers, settings->peers);
    settings_free(settings);
    peers_unref(peers);
    return is_other;
}

/* The index of the first act from `i` on that is of a kind to announce; n. */
static size_t
next_announced(const struct act *acts, size_t n, size_t i)
{
    static const bool is_announced[ACT_KINDS] = {
        [ACT_BIRTH] = true,      [ACT_LIST_END] = true, [ACT_SETTINGS] = true,
        [ACT_RETIREMENT] = true, [ACT_REMOVAL] = true,  [ACT_GENERATION] = true,
        [ACT_UNARCHIVED] = true,
    };

    while (i < n && (!is_announced[acts[i].kind] ||
                     (acts[i].kind == ACT_GENERATION &&
                      generation_is_order(&acts[i].generation.build))))
        i++;
    return i;
}

/* Announces acts[*i], and later ones that belong to it: sets *i to the last of
 * them. *is_source: the Source Description changes for the set, too. */
static void
add_act(struct announcer *a, const struct act *acts, size_t n, size_t *i,
        bool *is_source)
{
    const struct act *act = &acts[*i];
    size_t next = *i;

    switch (act->kind) {
    case ACT_BIRTH:
        *is_source = true;
        /* The settings that it begins with are no news. */
        next = next_announced(acts, n, *i + 1);
        if (next < n && acts[next].kind == ACT_SETTINGS &&
            acts[next].set == act->set)
            *i = next;
        add_capability_list(a, CHANGE_CREATED);
        break;
    case ACT_LIST_END:
        /* With the list ends of the set that follow. Its batches, and acts that
         * are not announced, may stand between them. */
        do {
            *i = next;
            next = next_announced(acts, n, *i + 1);
        } while (next < n && acts[next].kind == ACT_LIST_END &&
                 acts[next].set == act->set);
        add_closed_lists(a, act, acts[*i].list_end.info.number);
        break;
    case ACT_SETTINGS:
        *is_source = describes_otherwise(a, act);
        if (*is_source)
            add_capability_list(a, CHANGE_UPDATED);
        break;
    case ACT_RETIREMENT:
        add_retirement(a, act);
        break;
    case ACT_GENERATION:
        add_generation(a, act);
        break;
    case ACT_UNARCHIVED:
        add_unarchived(a, act);
        break;
    case ACT_REMOVAL:
        *is_source = true;
        add_capability_list(a, CHANGE_DELETED);
        break;
    default: /* next_announced finds no other */
        break;
    }
}

enum status
announcer_announce(struct announcer *a, struct registry *registry,
                   const struct act *acts, size_t n, struct post **post)
{
    size_t i = next_announced(acts, n, 0);

    if (i == n)
        return STATUS_OK;
    a->registry = registry;
    a->index_lists = registry->config->index_lists;
    source_changes_clear(&a->changes);
    buf_clear(&a->round.bytes);
    a->round.n_fragments = 0;
    a->round.set = registry->framework->log;
    a->status = STATUS_OK;
    for (; !a->status && i < n; i = next_announced(acts, n, i + 1)) {
        const struct act *first = &acts[i];
        bool is_source = false;

        if (first->set == a->round.set)
            continue; /* not announced */
        a->set = log_set_owner(first->set);
        if (set_is_private(a->set))
            continue;
        add_act(a, acts, n, &i, &is_source);
        if (is_source)
            source_changes_add(&a->changes, first);
    }
    a->set = NULL;
    if (source_changes_announce(&a->changes, registry, add_source, a))
        a->status = STATUS_MEMORY;
    if (!a->status && a->round.n_fragments > 0)
        *post = &a->round;
    return a->status;
}

/* The place where the seq of the last event about the set is noted; of events
 * about the Source, in the set of the framework log. */
static _Atomic(uint64_t) *
last_event(struct registry *registry, struct set *set)
{
    return &(set ? set : registry->framework)->last_event;
}

/* Log thread: the round was committed, or not. Notes where the events are. The
 * last one of a channel is noted last: they come in the order of the log, all
 * on its thread. Sets that the round has removed have had their last event. */
static void
on_round_end(struct post *post)
{
    struct announcer *a = list_entry(post, struct announcer, round);
    bool has_removed = false;

    if (post->status)
        return;
    a->changes.before = a->changes.after;
    for (size_t i = 0; i < post->n_fragments; i++)
        store_relaxed(last_event(a->registry, a->about[i]), post->first + i);
    for (size_t i = 0; i < post->n_fragments; i++) {
        struct set *set = a->about[i];
        struct head head;

        if (!set || log_head(set->log, &head))
            continue;
        atomic_store(&set->is_over, true);
        has_removed = true;
    }
    if (has_removed)
        registry_notify_changed(a->registry);
}

struct announcer *
announcer_new(void)
{
    struct announcer *a = memory_new(1, sizeof(*a));

    a->round.kind = POST_CHANGES;
    a->round.done = on_round_end;
    buf_init(&a->round.bytes, SIZE_MAX / 2);
    return a;
}

void
announcer_begin(struct announcer *announcer, struct registry *registry)
{
    announcer->changes.before = source_description_parts(registry);
}

/* Notes where the events of a batch of the framework log are, which another
 * broker has announced. A set that has ended with the same round is still the
 * one that its events are about; of sets that ended before it, nobody reads
 * events any more. */
static void
note_batch(struct registry *registry, const struct batch *b,
           const struct act *acts, size_t n)
{
    for (size_t i = 0; i < b->n_entries; i++) {
        struct slice type, name;
        struct set *set = NULL;

        fragment_labels(batch_slice(b, b->first + i - 1, b->first + i),
                        b->entries[i].stamp, &type, &name);
        if (slice_skip_start(&name, CHANNEL_TAG_SET)) {
            for (size_t a = 0; a < n && !set; a++)
                if (acts[a].kind == ACT_REMOVAL && slice_is(name, acts[a].name))
                    set = log_set_owner(acts[a].set);
            if (!set)
                set = registry_find(registry, name, NULL);
            if (!set)
                continue;
        }
        store_relaxed(last_event(registry, set), b->first + i);
    }
}

void
announcer_follow(struct announcer *announcer, struct registry *registry,
                 const struct act *acts, size_t n)
{
    struct source_changes *changes = &announcer->changes;

    source_changes_clear(changes);
    for (size_t i = 0; i < n; i++) {
        struct set *set = log_set_owner(acts[i].set);

        if (set == registry->framework) {
            if (acts[i].kind == ACT_BATCH)
                note_batch(registry, acts[i].entries.batch, acts, n);
        } else if (!set_is_private(set) &&
                   (acts[i].kind == ACT_BIRTH || acts[i].kind == ACT_REMOVAL)) {
            source_changes_add(changes, &acts[i]);
        }
    }
    if (source_changes_announce(changes, registry, NULL, NULL))
        /* a part that begins may be announced as updated */
        changes->after = source_description_parts(registry);
    changes->before = changes->after;
    for (size_t i = 0; i < n; i++) /* all events are noted */
        if (acts[i].kind == ACT_REMOVAL) {
            struct set *set = log_set_owner(acts[i].set);

            atomic_store(&set->is_over, true);
        }
}

void
announcer_free(struct announcer *a)
{
    if (!a)
        return;
    buf_fini(&a->round.bytes);
    free(a->round.fragments);
    free(a->about);
    free(a->changes.all);
    free(a);
}

/* Readers */

uint64_t
framework_event_last(const struct set *set)
{
    uint64_t own = load_relaxed(&set->last_event);
    uint64_t source = load_relaxed(last_event(set->registry, NULL));

    return own > source ? own : source;
}

bool
framework_event_is_over(const struct set *set)
{
    return atomic_load(&set->is_over) || set_is_private(set);
}

void
framework_event_found(struct set *set, uint64_t seq)
{
    uint64_t unknown = 0; /* else the log thread knows better by now */

    atomic_compare_exchange_strong_explicit(&set->last_event, &unknown, seq,
                                            memory_order_relaxed,
                                            memory_order_relaxed);
}
