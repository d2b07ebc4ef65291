#include "broker/log/sequencer.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/random.h"
#include "broker/log/idempotency.h"
#include "broker/log/list_file.h"
#include "broker/log/log_set.h"
#include "proto/resourcesync/document_write.h"

/* Adds an act, and moves the draft of its set over it. */
static enum status
add_act(struct sequencer *s, struct log_set *set, const struct act *act)
{
    act_move(act, s->acts.at_us, &set->draft);
    return acts_add(&s->acts, set, act);
}

/* Begins the log of a set with its first post. The set gets its id now, because
 * the next acts of the round name it. If the round is refused, the set loses
 * the id (sequencer_revert), and the next birth gets it: nobody else has seen
 * it. */
static enum status
give_birth(struct sequencer *s, struct log_set *set, struct post *post)
{
    struct act act = {.kind = ACT_BIRTH};

    if (!random_hex(act.birth.epoch, sizeof(act.birth.epoch)))
        return STATUS_MEMORY;
    act.birth.created_us = s->acts.at_us;
    act.birth.start_list = set->start_list ? set->start_list : 1;
    act.birth.creator = log_set_creator(set);
    set->id =
        s->engine->ops->next_id(s->engine) + (uint32_t)s->acts.n_of[ACT_BIRTH];
    post->is_birth = true;
    return add_act(s, set, &act);
}

static const struct list_limits *
limits_of(const struct sequencer *s, const struct log_set *set)
{
    return set->limits.entries ? &set->limits : &s->options->limits;
}

/* Ends the batch that is being filled, if any. */
static void
finish_batch(struct log_set *set)
{
    struct batch *b = set->filling;

    if (!b)
        return;
    b->list = set->draft.list;
    b->list_bytes = set->draft.list_bytes;
    set->draft.digest = b->digest;
    batch_trim(b);
    set->filling = NULL;
}

/* Ends the open list, which is not empty. Its header is made now and stored
 * with the end, so that no later setting or version can change a closed list.
 */
static enum status
end_list(struct sequencer *s, struct log_set *set)
{
    struct act act = {
        .kind = ACT_LIST_END,
        .list_end = {.commit_after = set->draft.commit_after,
                     .first_list = set->draft.first_list},
    };
    struct buf header = {.max = DOCUMENT_FRAME_MAX};

    finish_batch(set);
    act.list_end.info = head_open_list(&set->draft);
    act.list_end.info.until_us = set->draft.last_us;
    s->options->on_header(set, &set->draft, &act.list_end.info, &header,
                          s->options->user);
    act.list_end.header = buf_slice(&header);
    return add_act(s, set, &act);
}

static enum status
place_entry(struct sequencer *s, struct log_set *set, const char *bytes,
            const struct fragment *f, size_t expected)
{
    int64_t now_us = s->acts.at_us;
    size_t size = f->size + FRAGMENT_STAMP_MAX, before;
    int64_t us = event_time(set->draft.last_us, f->datetime_us, now_us);

    if (head_must_end_list(&set->draft, limits_of(s, set), size) &&
        end_list(s, set))
        return STATUS_MEMORY;
    if (set->filling && set->filling->size + size > BATCH_BYTES_MAX)
        finish_batch(set);
    if (!set->filling) {
        struct act act = {.kind = ACT_BATCH};

        if (!ONE_MORE(set->made, &set->made_capacity, set->n_made))
            return STATUS_MEMORY;
        if (set->n_made == 0)
            set->draft.commit_after = set->draft.last;
        set->filling = batch_new(set->draft.last, set->draft.last_us,
                                 &set->draft.digest, s->forms);
        set->made[set->n_made++] = set->filling;
        act.entries.batch = set->filling;
        act.entries.commit_after = set->draft.commit_after;
        if (acts_add(&s->acts, set, &act) ||
            batch_reserve(
                set->filling,
                expected < BATCH_BYTES_MAX ? expected : BATCH_BYTES_MAX, 16))
            return STATUS_MEMORY;
    }
    if (batch_reserve(set->filling, size, 1))
        return STATUS_MEMORY;

    before = set->filling->size;
    batch_add(set->filling, bytes, f, us);
    if (head_list_is_empty(&set->draft))
        set->draft.list_first_us = now_us; /* its age counts from here */
    set->draft.last++;
    set->draft.last_us = us;
    set->draft.list_bytes += set->filling->size - before;
    if (head_list_is_full(&set->draft, limits_of(s, set)))
        return end_list(s, set);
    return STATUS_OK;
}

/* Adds what the post brings of the content of entry `i`, the last one placed.
 * Entries before it may not have been placed: of events that are known. */
static enum status
place_content(struct sequencer *s, struct post *post, size_t i)
{
    const struct content_fact *all = (void *)post->contents.data;
    size_t n = post->contents.size / sizeof(*all);
    enum status rc = STATUS_OK;

    while (!rc && post->carried < n && all[post->carried].seq <= i) {
        struct act act = {.kind = ACT_CONTENT, .content = all[post->carried++]};
        bool is_placed = act.content.seq == i;

        act.content.seq = post->set->draft.last;
        if (act.content.due_us != CONTENT_IN_BUCKET) {
            act.content.bytes =
                (struct slice){post->content_bytes.data + post->carried_bytes,
                               act.content.length};
            post->carried_bytes += act.content.length;
        }
        if (is_placed)
            rc = add_act(s, post->set, &act);
    }
    return rc;
}

/* Places `n` entries of the post, from number `from` on, which begin at byte
 * *at; moves that behind them. */
static enum status
place_entries(struct sequencer *s, struct post *post, size_t from, size_t n,
              size_t *at)
{
    enum status rc = STATUS_OK;

    for (size_t i = from; !rc && i < from + n; i++) {
        /* The part of the post for this batch, for one allocation. */
        size_t expected = post->bytes.size - *at +
                          (post->n_fragments - i) * FRAGMENT_STAMP_MAX;

        rc = place_entry(s, post->set, post->bytes.data + *at,
                         &post->fragments[i], expected);
        *at += post->fragments[i].size;
        if (!rc && post->contents.size > 0)
            rc = place_content(s, post, i);
    }
    return rc;
}

/* Places the events that the log does not have. */
static enum status
place_events(struct sequencer *s, struct post *post)
{
    struct head *draft = &post->set->draft;
    size_t from = 0, at = 0;
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < post->n_events; i++) {
        struct post_event *event = &post->events[i];

        if (event->is_known) {
            for (size_t k = 0; k < event->n_fragments; k++)
                at += post->fragments[from + k].size;
        } else {
            event->first = draft->last + 1;
            rc = place_entries(s, post, from, event->n_fragments, &at);
            event->last = draft->last;
            event->last_us = draft->last_us;
            if (!rc)
                rc = idempotency_add(&s->acts, post, event);
        }
        from += event->n_fragments;
    }
    return rc;
}

static enum status
place_changes(struct sequencer *s, struct post *post)
{
    struct log_set *set = post->set;
    size_t at = 0;
    enum status rc = STATUS_OK;

    if (!set->draft.exists)
        rc = give_birth(s, set, post);
    post->first = set->draft.last + 1;
    post->carried = post->carried_bytes = 0;
    if (!rc && post->n_events > 0)
        rc = place_events(s, post);
    else if (!rc)
        rc = place_entries(s, post, 0, post->n_fragments, &at);
    post->last = set->draft.last;
    post->last_us = set->draft.last_us;
    memcpy(post->epoch, set->draft.epoch, sizeof(post->epoch));
    if (!rc && post->key.size > 0)
        rc = idempotency_add(&s->acts, post, NULL);
    return rc;
}

/* How many lists the engine lends at once, and so how many files are looked at
 * between two of its answers. */
#define STEP_LISTS 64

/* Returns the bytes of all files of a set behind a retirement. Each broker has
 * files of its own: a list that is not filed here counts nothing, and ACT_FILED
 * does not count it later. */
static uint64_t
file_bytes_behind(struct sequencer *s, const struct log_set *set,
                  const struct act *act)
{
    struct file_path path =
        file_path("%s/sets/%s/" LOG_CHANGES, s->options->dir, set->name);
    struct list_info lists[STEP_LISTS];
    uint64_t bytes = set->draft.file_bytes, next = act->retirement.first;
    size_t n = STEP_LISTS;
    int dir_fd = open(path.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir_fd < 0)
        return bytes; /* no list was ever filed here */
    for (; n > 0 && next <= act->retirement.last; n = STEP_LISTS) {
        if (s->engine->ops->lists(s->engine, set->id, next, lists, &n, NULL))
            break;
        for (size_t i = 0; i < n; i++) {
            uint64_t size =
                lists[i].is_filed && lists[i].number <= act->retirement.last
                    ? list_file_size(dir_fd, lists[i].number)
                    : 0;

            bytes -= size < bytes ? size : bytes;
            next = lists[i].number + 1;
        }
        if (n < STEP_LISTS)
            break;
    }
    close(dir_fd);
    return bytes;
}

static enum status
place_generation(struct sequencer *s, struct log_set *set, struct act act,
                 int64_t grace_us)
{
    const struct head *draft = &set->draft;
    const struct generations *lists = draft->generations; /* the first kind */
    struct act list = {.kind = ACT_GENERATION};
    struct generation *next = &act.generation.build;
    const struct generations *now = &draft->generations[next->kind];
    bool is_order = generation_is_order(next);

    /* There is no act if another broker of the cluster was first. An order
     * follows the last generation that its broker knew: that broker chose for
     * the next number whether the archive gets the list. A list must be the
     * ordered one. */
    if (is_order ? next->number != now->last
                 : s->options->journal && next->number != generations_next(now))
        return STATUS_OK;
    act.generation.is_first = now->current.number == 0;
    act.generation.due_us = s->acts.at_us + grace_us;
    act.generation.n_archived = now->n_archived;
    act.generation.first_archived = now->first_archived;
    if (is_order) { /* of a list at the end of the log */
        next->number = now->last + 1;
        next->seq = draft->last;
        next->at_us = draft->last_us;
        next->completed_us = s->acts.at_us;
    } else if (next->is_archived) {
        if (act.generation.n_archived++ == 0)
            act.generation.first_archived = next->number;
    }
    list.generation.build =
        (struct generation){.kind = GENERATION_RESOURCELIST,
                            .number = lists->last,
                            .is_archived = act.generation.keeps_list};
    if (is_order && next->kind == GENERATION_RESOURCEDUMP &&
        lists->current.seq != draft->last &&
        place_generation(s, set, list, grace_us))
        return STATUS_MEMORY;
    return add_act(s, set, &act);
}

static enum status
place_act(struct sequencer *s, struct post *post)
{
    struct log_set *set = post->set;
    const struct head *draft = set ? &set->draft : NULL;
    const struct generations *now;
    struct act act = *post->act;
    int64_t at_us = s->acts.at_us, due_us = at_us + post->grace_us;

    switch (act.kind) {
    case ACT_REMOVAL:
        /* The set ends with this commit. Its open list ends without becoming a
         * closed one. Readers know the number of that list, so no later list
         * gets it, and no generation. */
        act.removal.first = draft->first_list;
        act.removal.last = draft->list - 1;
        act.removal.next_list = draft->list + 1;
        for (int kind = 0; kind < GENERATION_KINDS; kind++)
            if (draft->generations[kind].last >= act.removal.next_list)
                act.removal.next_list = draft->generations[kind].last + 1;
        act.removal.removed_us = at_us;
        act.removal.due_us = due_us;
        act.removal.creator = log_set_creator(set);
        break;
    case ACT_RETIREMENT:
        /* The history begins later from this commit on, for everybody. */
        if (act.retirement.last < draft->first_list ||
            act.retirement.last >= draft->list)
            return STATUS_OK; /* retired already: there is no act */
        act.retirement.first = draft->first_list;
        act.retirement.file_bytes = file_bytes_behind(s, set, &act);
        act.retirement.open_list = draft->list;
        act.retirement.due_us = due_us;
        break;
    case ACT_GENERATION:
        return place_generation(s, set, act, post->grace_us);
    case ACT_UNARCHIVED:
        now = &draft->generations[act.unarchived.kind];
        if (act.unarchived.from != now->first_archived)
            return STATUS_OK; /* another broker was first: there is no act */
        act.unarchived.n_archived = now->n_archived - act.unarchived.n;
        act.unarchived.last = now->last;
        act.unarchived.due_us = due_us;
        break;
    case ACT_HARVEST:
        if (!draft->exists && give_birth(s, set, post))
            return STATUS_MEMORY;
        break;
    case ACT_FILED:
        /* Another broker may have retired the list before it was filed here. */
        act.filed.file_bytes = draft->file_bytes;
        if (act.filed.list >= draft->first_list)
            act.filed.file_bytes += act.filed.bytes;
        break;
    case ACT_EPOCH:
        if (!draft->exists)
            return STATUS_OK;
        if ((!head_list_is_empty(draft) && end_list(s, set)) ||
            !random_hex(act.epoch.name, sizeof(act.epoch.name)))
            return STATUS_MEMORY;
        act.epoch.after = draft->last;
        for (int kind = 0; kind < GENERATION_STATES; kind++)
            act.epoch.builds[kind] = draft->generations[kind].last;
        break;
    case ACT_CONTENT:
    case ACT_TAKEN:
        break;
    case ACT_PURGED:
    case ACT_SWEPT:
    case ACT_GUARD:
        return acts_add(&s->acts, NULL, &act);
    default: /* follow from posts of other kinds */
        return STATUS_OK;
    }
    return add_act(s, set, &act);
}

void
sequencer_init(struct sequencer *s, struct engine *engine,
               const struct log_options *options, atomic_size_t *forms)
{
    *s = (struct sequencer){
        .engine = engine, .options = options, .forms = forms};
    list_init(&s->touched);
}

enum status
sequencer_place(struct sequencer *s, struct post *post)
{
    struct log_set *set = post->set;

    if (set && list_is_empty(&set->touched))
        list_append(&s->touched, &set->touched);
    switch (post->kind) {
    case POST_CHANGES:
        return place_changes(s, post);
    case POST_CLOSE:
        post->ended = 0;
        if (!set->draft.exists || head_list_is_empty(&set->draft) ||
            (post->list && post->list != set->draft.list))
            return STATUS_OK;
        post->ended = set->draft.list;
        return end_list(s, set);
    case POST_SETTINGS:
        if (!set->draft.exists && give_birth(s, set, post))
            return STATUS_MEMORY;
        return add_act(
            s, set,
            &(struct act){.kind = ACT_SETTINGS,
                          .settings = {post->settings, s->acts.at_us}});
    case POST_ACT:
        return place_act(s, post);
    case POST_RECORD: /* of another broker: sequencer_follow */
        break;
    }
    return STATUS_OK;
}

enum status
sequencer_follow(struct sequencer *s, struct log_set *set,
                 const struct act *act, struct problem *why)
{
    uint32_t next =
        s->engine->ops->next_id(s->engine) + (uint32_t)s->acts.n_of[ACT_BIRTH];
    struct act own = *act;

    if (list_is_empty(&set->touched))
        list_append(&s->touched, &set->touched);
    if (!act_follows(act, &set->draft) ||
        act->set_id != (act->kind == ACT_BIRTH ? next : set->id))
        return problem(why, STATUS_DIFFERENT,
                       "the set %s is not here what it is there", set->name);
    switch (own.kind) {
    case ACT_BIRTH:
        set->id = own.set_id;
        log_set_begin_for(set, own.birth.creator);
        break;
    case ACT_BATCH: /* becomes one of the round: tail_publish takes it over */
        if (!ONE_MORE(set->made, &set->made_capacity, set->n_made))
            return problem_memory(why);
        set->made[set->n_made++] =
            batch_ref((struct batch *)(uintptr_t)own.entries.batch);
        break;
    case ACT_LIST_END: /* acts_add takes the header */
        own.list_end.header.data = slice_dup(own.list_end.header);
        break;
    case ACT_RETIREMENT:
        own.retirement.file_bytes = file_bytes_behind(s, set, act);
        break;
    default:
        break;
    }
    return add_act(s, set, &own);
}

void
sequencer_finish(struct sequencer *s)
{
    struct log_set *set;

    list_walk (set, &s->touched, touched)
        finish_batch(set);
}

void
sequencer_revert(struct sequencer *s)
{
    struct log_set *set;

    list_walk (set, &s->touched, touched) {
        list_remove(&set->touched);
        for (size_t i = 0; i < set->n_made; i++)
            batch_unref(set->made[i]);
        set->n_made = 0;
        set->filling = NULL;
        tail_head(&set->tail, &set->draft);
        if (!set->draft.exists)
            set->id = 0;
    }
}
