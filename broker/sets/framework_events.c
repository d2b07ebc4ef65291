#include "broker/sets/framework_events.h"

#include "base/array.h"
#include "broker/base/diag.h"
#include "broker/sets/index_parts.h"
#include "broker/sets/links.h"
#include "broker/sets/peers.h"
#include "broker/sets/registry.h"
#include "broker/sets/settings.h"
#include "broker/sets/source_description.h"

/* Channels */

struct log_set *
channel_log(const struct set *set, bool is_framework)
{
    return is_framework ? registry_framework(set->registry) : set->log;
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

/* Events that are announced together, as a post. */
struct announcement {
    struct post post;
    struct set **about;      /* of each fragment; NULL: the Source */
    size_t room, about_room; /* of the fragments, and of these */
    enum status status;      /* of the first event that could not be added */
};

static void
announcement_init(struct announcement *a, void (*done)(struct post *post))
{
    *a = (struct announcement){.post = {.kind = POST_CHANGES, .done = done}};
    buf_init(&a->post.bytes, SIZE_MAX / 2);
}

static void
announcement_fini(struct announcement *a)
{
    buf_fini(&a->post.bytes);
    free(a->post.fragments);
    free(a->about);
}

/* False: no memory for so many. */
static bool
make_room(struct announcement *a)
{
    size_t n = a->post.n_fragments;

    return ONE_MORE(a->post.fragments, &a->room, n) &&
           ONE_MORE(a->about, &a->about_room, n);
}

static void
add_event(struct announcement *a, const struct event *event)
{
    char tag[sizeof(CHANNEL_TAG_SET) + SET_NAME_MAX] = CHANNEL_TAG_SOURCE;
    const struct link index = {
        .rel = SLICE("index"),
        .href = event->index,
        .modified_us = DATETIME_NONE,
        .length = LENGTH_NONE,
    };
    struct change change;

    if (event->set)
        snprintf(tag, sizeof(tag), CHANNEL_TAG_SET "%s", event->set->name);
    change_init(&change);
    change.loc = event->loc;
    change.kind = event->change;
    change.capability = slice_of(capability_name(event->capability));
    change.tags = slice_of(tag);
    change.links = &index;
    change.n_links = event->index.size > 0;
    if (!make_room(a) ||
        fragment_write(&a->post.bytes, &change,
                       &a->post.fragments[a->post.n_fragments], NULL))
        a->status = STATUS_MEMORY;
    else
        a->about[a->post.n_fragments++] = event->set;
}

/* The place where the seq of the last event about the set is noted; of events
 * about the Source, in the set of the framework log. */
static _Atomic(uint64_t) *
last_event(struct registry *registry, struct set *set)
{
    return &(set ? set : registry_framework_set(registry))->last_event;
}

/* Notes where the events are. The last one of a channel is noted last: they
 * come in the order of the log, all on its thread. */
static void
note_events(const struct announcement *a, struct registry *registry)
{
    for (size_t i = 0; i < a->post.n_fragments; i++)
        atomic_store_explicit(last_event(registry, a->about[i]),
                              a->post.first + i, memory_order_relaxed);
}

uint64_t
framework_event_last(const struct set *set)
{
    uint64_t own = atomic_load_explicit(&set->last_event, memory_order_relaxed);
    uint64_t source = atomic_load_explicit(last_event(set->registry, NULL),
                                           memory_order_relaxed);

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

/* Events of other modules */

struct submitted {
    struct announcement announcement;
    struct registry *registry;
};

static void
submitted_free(struct submitted *s)
{
    announcement_fini(&s->announcement);
    free(s);
}

/* Log thread. */
static void
on_submitted(struct post *post)
{
    struct submitted *s = list_entry(post, struct submitted, announcement.post);

    if (post->status)
        DIAG(DIAG_WARNING, "sets", "an event is not announced",
             diag_text("error", post->why.text));
    else
        note_events(&s->announcement, s->registry);
    submitted_free(s);
}

enum status
framework_event_submit(struct registry *registry, const struct event *event,
                       struct problem *why)
{
    struct submitted *s;

    if (event->set && set_is_private(event->set))
        return STATUS_OK;
    s = memory_new(1, sizeof(*s));
    announcement_init(&s->announcement, on_submitted);
    s->announcement.post.set = registry_framework(registry);
    s->registry = registry;
    add_event(&s->announcement, event); /* a small one */
    if (!log_submit(registry_log(registry), &s->announcement.post))
        return STATUS_OK;
    submitted_free(s);
    return problem(why, STATUS_STOPPED, "the log is ending");
}

/* Events of a round */

/* Of the log thread. */
struct announcer {
    struct registry *registry;
    struct announcement round;
    struct source_changes changes;
};

/* The set of some acts, while their announcement is made. */
struct subject {
    struct announcement *to;
    struct set *set; /* NULL: the Source */
    const char *url;
    uint64_t index_lists;
};

static void
add_document(const struct subject *s, enum change_kind change,
             enum capability capability, const struct link_text *loc,
             const struct link_text *index)
{
    const struct event event = {
        .change = change,
        .capability = capability,
        .set = s->set,
        .loc = link_slice(loc),
        .index = index ? link_slice(index) : (struct slice){NULL, 0},
    };

    add_event(s->to, &event);
}

static void
add_capability_list(const struct subject *s, enum change_kind change)
{
    struct link_text loc = set_link(s->set, LINK_CAPABILITYLIST);

    add_document(s, change, CAP_CAPABILITYLIST, &loc, NULL);
}

static void
add_source(void *user, enum change_kind change, const struct link_text *loc,
           const struct link_text *index)
{
    const struct subject *s = user;

    add_document(s, change, CAP_DESCRIPTION, loc, index);
}

/* A numbered list. Its index is that of the fixed address, which is one from
 * the first closed list on, and so never told of itself. */
static void
add_list(const struct subject *s, enum change_kind change, uint64_t number)
{
    struct link_text loc =
        link_to(s->url, LINK_LIST, s->set->name, NULL, number);
    struct link_text index = set_link(s->set, LINK_CHANGELIST);

    add_document(s, change, CAP_CHANGELIST, &loc, &index);
}

static void
add_archive(const struct subject *s, enum change_kind change)
{
    struct link_text loc = set_link(s->set, LINK_CHANGELIST_ARCHIVE);

    add_document(s, change, CAP_CHANGELIST_ARCHIVE, &loc, NULL);
}

/* A part of an archive that has an index: its first list would be `begin`. */
static void
add_part(const struct subject *s, enum change_kind change,
         const struct parts *parts, uint64_t begin)
{
    struct link_text loc =
        link_to_archive(s->url, s->set->name, begin, begin + parts->size - 1);
    struct link_text index = set_link(s->set, LINK_CHANGELIST_ARCHIVE);

    add_document(s, change, CAP_CHANGELIST_ARCHIVE, &loc, &index);
}

/* The archive got the lists `from` to `last`; its oldest is `oldest`. It begins
 * with the first list. With too many lists for one document, its address is
 * that of an index, and the parts are new documents. */
static void
add_grown_archive(const struct subject *s, uint64_t oldest, uint64_t from,
                  uint64_t last)
{
    struct parts before = parts_of(oldest, from, s->index_lists);
    struct parts now = parts_of(oldest, last + 1, s->index_lists);

    if (!now.has_index) {
        add_archive(s, from == oldest ? CHANGE_CREATED : CHANGE_UPDATED);
        return;
    }
    for (uint64_t begin = parts_begin(&now, before.has_index ? from : oldest);
         begin <= last; begin += now.size)
        add_part(s,
                 before.has_index && begin < from ? CHANGE_UPDATED
                                                  : CHANGE_CREATED,
                 &now, begin);
}

/* Announces the lists that a round closed one after the other, up to number
 * `last`: the first was there before, each other one began when its predecessor
 * ended. */
static void
add_closed_lists(const struct subject *s, const struct act *first,
                 uint64_t last)
{
    uint64_t oldest = first->list_end.first_list;
    uint64_t from = first->list_end.info.number;

    add_list(s, CHANGE_UPDATED, from);
    for (uint64_t number = from + 1; number <= last + 1; number++)
        add_list(s, CHANGE_CREATED, number);
    add_grown_archive(s, oldest, from, last);
    if (from == oldest) /* now it names the archive */
        add_capability_list(s, CHANGE_UPDATED);
}

/* Lists went. What had only such lists is not there any more; the Capability
 * List says so of the archive, the index of a part. */
static void
add_retirement(const struct subject *s, const struct act *act)
{
    uint64_t first_list = act->retirement.last + 1;
    struct parts parts =
        parts_of(first_list, act->retirement.open_list, s->index_lists);
    uint64_t begin = parts_begin(&parts, first_list);

    if (first_list == act->retirement.open_list)
        add_capability_list(s, CHANGE_UPDATED);
    else if (!parts.has_index)
        add_archive(s, CHANGE_UPDATED);
    else if (begin < first_list)
        add_part(s, CHANGE_UPDATED, &parts, begin);
}

static void
add_generations(const struct subject *s, enum generation_kind kind,
                enum change_kind change)
{
    struct link_text loc = link_to_generations(s->url, s->set->name, kind);

    add_document(s, change, links_kinds[kind].archive, &loc, NULL);
}

/* A part of an archive of generations that has an index: it begins with the
 * number `begin`. */
static void
add_generations_part(const struct subject *s, enum generation_kind kind,
                     enum change_kind change, const struct parts *parts,
                     uint64_t begin)
{
    struct link_text loc = link_to_generations_part(
        s->url, s->set->name, kind, begin, begin + parts->size - 1);
    struct link_text index = link_to_generations(s->url, s->set->name, kind);

    add_document(s, change, links_kinds[kind].archive, &loc, &index);
}

/* Returns the number of the first archived generation from `number` on, as the
 * archive was before the round; 0: there was none. */
static uint64_t
find_archived(const struct subject *s, enum generation_kind kind,
              uint64_t number)
{
    struct generation generation;
    struct generation_page page = {kind, number, &generation, 1};
    enum status rc = log_generations(registry_log(s->set->registry),
                                     s->set->log, &page, NULL);

    if (rc)
        s->to->status = rc;
    return !rc && page.n == 1 ? generation.number : 0;
}

/* Announces all parts of an archive that has an index from generation `g` on.
 * Parts without a generation do not exist. */
static void
add_all_parts(const struct subject *s, const struct generation *g,
              const struct parts *parts)
{
    for (uint64_t next = 1; next <= g->number;) {
        uint64_t number = find_archived(s, g->kind, next);
        uint64_t begin = parts_begin(parts, number ? number : g->number);

        add_generations_part(s, g->kind, CHANGE_CREATED, parts, begin);
        next = begin + parts->size;
    }
}

/* Announces that the archive got a generation: the archive while it is one
 * document, else the part that has the generation, never the index. */
static void
add_archived(const struct subject *s, const struct act *act)
{
    const struct generation *g = &act->generation.build;
    uint64_t n = act->generation.n_archived;
    struct parts before =
        parts_of_generations(n - 1, g->number - 1, s->index_lists);
    struct parts now = parts_of_generations(n, g->number, s->index_lists);
    uint64_t begin = parts_begin(&now, g->number);

    if (!now.has_index)
        add_generations(s, g->kind, n == 1 ? CHANGE_CREATED : CHANGE_UPDATED);
    else if (!before.has_index || before.size != now.size)
        add_all_parts(s, g, &now);
    else
        add_generations_part(s, g->kind,
                             find_archived(s, g->kind, begin) ? CHANGE_UPDATED
                                                              : CHANGE_CREATED,
                             &now, begin);
}

/* Announces that the oldest generations left the archive. A part without any
 * left is not announced: R-323 has no `deleted` for it. */
static void
add_unarchived(const struct subject *s, const struct act *act)
{
    enum generation_kind kind = act->unarchived.kind;
    uint64_t oldest = act->unarchived.first_archived;
    struct parts now = parts_of_generations(
        act->unarchived.n_archived, act->unarchived.last, s->index_lists);
    uint64_t begin = parts_begin(&now, oldest);

    if (!now.has_index)
        add_generations(s, kind, CHANGE_UPDATED);
    else if (find_archived(s, kind, begin) != oldest)
        add_generations_part(s, kind, CHANGE_UPDATED, &now, begin);
}

/* Announces the parts of a list of several parts, never their index. */
static void
add_list_parts(const struct subject *s, const struct generation *g)
{
    struct link_text index =
        link_to_generation(s->url, s->set->name, g->kind, g->number);

    for (uint64_t part = 1; part <= g->parts; part++) {
        struct link_text loc = link_to_part(s->url, s->set->name, g->kind,
                                            g->number, part, LINK_PART);

        add_document(s, CHANGE_CREATED, links_kinds[g->kind].capability, &loc,
                     &index);
    }
}

/* A Change Dump is a document of its own behind those that there are; the first
 * is at the fixed address, which is that of an index from the second on. A
 * Resource Dump never changes, nor does what is at its own address: each one is
 * a document that begins, and the fixed address leads to the latest. */
static void
add_dump(const struct subject *s, const struct generation *g, bool is_first)
{
    struct link_text current = link_to_current(s->url, s->set->name, g->kind);
    struct link_text own =
        link_to_generation(s->url, s->set->name, g->kind, g->number);
    bool is_change_dump = g->kind == GENERATION_CHANGEDUMP;

    add_document(s, CHANGE_CREATED, links_kinds[g->kind].capability,
                 is_change_dump && is_first ? &current : &own,
                 is_change_dump && !is_first ? &current : NULL);
}

/* A list or dump was built. The first of its kind brings itself, or the
 * archive, into the Capability List. */
static void
add_generation(const struct subject *s, const struct act *act)
{
    const struct generation *g = &act->generation.build;
    bool is_first = act->generation.is_first;
    struct link_text current = link_to_current(s->url, s->set->name, g->kind);

    if (g->kind != GENERATION_RESOURCELIST)
        add_dump(s, g, is_first);
    else if (g->parts > 1)
        add_list_parts(s, g);
    else
        add_document(s, is_first ? CHANGE_CREATED : CHANGE_UPDATED,
                     links_kinds[g->kind].capability, &current, NULL);
    if (g->is_archived)
        add_archived(s, act);
    if (is_first || (g->is_archived && act->generation.n_archived == 1))
        add_capability_list(s, CHANGE_UPDATED);
}

/* True if these settings change the description of the set in documents (R-046,
 * Compares with the committed settings in the registry: two
 * changes of one round that cancel out are announced, though no reader could
 * see them. */
static bool
describes_otherwise(const struct subject *s, const struct act *act)
{
    struct peers *peers = registry_peers(s->set);
    struct settings *settings = memory_new(1, sizeof(*settings));
    struct settings now;
    bool is_other = false;

    registry_settings(s->set, &now);
    if (!settings_read(settings, registry_config(s->set->registry),
                       act->settings.text, NULL))
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

/* The last of the acts to announce, from `i` on, that follow each other and are
 * list ends of one set, as acts[i] is. The batches of the set, and acts that
 * are not announced, may stand between them. */
static size_t
last_list_end(const struct act *acts, size_t n, size_t i)
{
    size_t next = i, last;

    do {
        last = next;
        next = next_announced(acts, n, last + 1);
    } while (next < n && acts[next].kind == ACT_LIST_END &&
             acts[next].set == acts[i].set);
    return last;
}

/* Announces acts[*i], and later ones that belong to it: sets *i to the last of
 * them. *is_source: the Source Description changes for the set, too. */
static void
add_act(const struct subject *s, const struct act *acts, size_t n, size_t *i,
        bool *is_source)
{
    const struct act *act = &acts[*i];
    size_t next;

    switch (act->kind) {
    case ACT_BIRTH:
        *is_source = true;
        /* The settings that it begins with are no news. */
        next = next_announced(acts, n, *i + 1);
        if (next < n && acts[next].kind == ACT_SETTINGS &&
            acts[next].set == act->set)
            *i = next;
        add_capability_list(s, CHANGE_CREATED);
        break;
    case ACT_LIST_END:
        *i = last_list_end(acts, n, *i);
        add_closed_lists(s, act, acts[*i].list_end.info.number);
        break;
    case ACT_SETTINGS:
        *is_source = describes_otherwise(s, act);
        if (*is_source)
            add_capability_list(s, CHANGE_UPDATED);
        break;
    case ACT_RETIREMENT:
        add_retirement(s, act);
        break;
    case ACT_GENERATION:
        add_generation(s, act);
        break;
    case ACT_UNARCHIVED:
        add_unarchived(s, act);
        break;
    case ACT_REMOVAL:
        *is_source = true;
        add_capability_list(s, CHANGE_DELETED);
        break;
    default: /* next_announced finds no other */
        break;
    }
}

enum status
announcer_announce(struct announcer *announcer, struct registry *registry,
                   const struct act *acts, size_t n, struct post **post)
{
    struct announcement *a = &announcer->round;
    struct subject s = {
        .to = a,
        .url = registry_public_url(registry),
        .index_lists = registry_config(registry)->index_lists,
    };
    size_t i = next_announced(acts, n, 0);

    if (i == n)
        return STATUS_OK;
    announcer->registry = registry;
    source_changes_clear(&announcer->changes);
    buf_clear(&a->post.bytes);
    a->post.n_fragments = 0;
    a->post.set = registry_framework(registry);
    a->status = STATUS_OK;
    for (; !a->status && i < n; i = next_announced(acts, n, i + 1)) {
        const struct act *first = &acts[i];
        bool is_source = false;

        if (first->set == a->post.set)
            continue; /* not announced */
        s.set = log_set_owner(first->set);
        if (set_is_private(s.set))
            continue;
        add_act(&s, acts, n, &i, &is_source);
        if (is_source)
            source_changes_add(&announcer->changes, first);
    }
    s.set = NULL;
    if (source_changes_announce(&announcer->changes, registry, add_source, &s))
        a->status = STATUS_MEMORY;
    if (!a->status && a->post.n_fragments > 0)
        *post = &a->post;
    return a->status;
}

/* Sets that the round has removed have had their last event. Was there one? */
static bool
end_removed(const struct announcement *a)
{
    bool is_any = false;

    for (size_t i = 0; i < a->post.n_fragments; i++) {
        struct set *set = a->about[i];
        struct head head;

        if (!set || log_head(set->log, &head))
            continue;
        atomic_store(&set->is_over, true);
        is_any = true;
    }
    return is_any;
}

/* Log thread: the round was committed, or not. */
static void
on_round_end(struct post *post)
{
    struct announcer *announcer =
        list_entry(post, struct announcer, round.post);

    if (post->status)
        return;
    announcer->changes.before = announcer->changes.after;
    note_events(&announcer->round, announcer->registry);
    if (end_removed(&announcer->round))
        registry_notify_changed(announcer->registry);
}

struct announcer *
announcer_new(void)
{
    struct announcer *announcer = memory_new(1, sizeof(*announcer));

    announcement_init(&announcer->round, on_round_end);
    return announcer;
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
        if (slice_starts(name, CHANNEL_TAG_SET)) {
            slice_skip(&name, strlen(CHANNEL_TAG_SET));
            for (size_t a = 0; a < n && !set; a++)
                if (acts[a].kind == ACT_REMOVAL && slice_is(name, acts[a].name))
                    set = log_set_owner(acts[a].set);
            if (!set)
                set = registry_find(registry, name, NULL);
            if (!set)
                continue;
        }
        atomic_store_explicit(last_event(registry, set), b->first + i,
                              memory_order_relaxed);
    }
}

/* A source_announce_fn: another broker has announced it. */
static void
announce_nothing(void *user, enum change_kind change,
                 const struct link_text *loc, const struct link_text *index)
{
    (void)user;
    (void)change;
    (void)loc;
    (void)index;
}

void
announcer_follow(struct announcer *announcer, struct registry *registry,
                 const struct act *acts, size_t n)
{
    struct source_changes *changes = &announcer->changes;

    source_changes_clear(changes);
    for (size_t i = 0; i < n; i++) {
        struct set *set = log_set_owner(acts[i].set);

        if (set == registry_framework_set(registry)) {
            if (acts[i].kind == ACT_BATCH)
                note_batch(registry, acts[i].entries.batch, acts, n);
        } else if (!set_is_private(set) &&
                   (acts[i].kind == ACT_BIRTH || acts[i].kind == ACT_REMOVAL)) {
            source_changes_add(changes, &acts[i]);
        }
    }
    if (source_changes_announce(changes, registry, announce_nothing, NULL))
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
announcer_free(struct announcer *announcer)
{
    if (!announcer)
        return;
    announcement_fini(&announcer->round);
    source_changes_fini(&announcer->changes);
    free(announcer);
}
