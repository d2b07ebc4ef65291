#include "broker/log/sequencer.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/array.h"
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
 * the id (revert_set), and the next birth gets it: nobody else has seen it. */
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

static enum status
begin_batch(struct sequencer *s, struct log_set *set)
{
    struct act act = {.kind = ACT_BATCH};

    if (!ONE_MORE(set->made, &set->made_capacity, set->n_made))
        return STATUS_MEMORY;
    set->filling = batch_new(set->draft.last, set->draft.last_us,
                             &set->draft.digest, s->forms);
    if (set->n_made == 0)
        set->draft.commit_after = set->draft.last;
    set->made[set->n_made++] = set->filling;
    act.entries.batch = set->filling;
    act.entries.commit_after = set->draft.commit_after;
    return acts_add(&s->acts, set, &act);
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
    struct buf header;

    finish_batch(set);
    act.list_end.info = head_open_list(&set->draft);
    act.list_end.info.until_us = set->draft.last_us;
    buf_init(&header, DOCUMENT_FRAME_MAX);
    s->options->on_header(set, set->draft.epoch, &act.list_end.info, &header,
                          s->options->user);
    act.list_end.header = buf_slice(&header);
    return add_act(s, set, &act);
}

/*
 * The event time of an entry: the source's own where it is later than every
 * time already told and not after now, else the acceptance time; strictly
 * increasing in any case, also when the clock was set back.
 */
static int64_t
event_time(const struct head *head, int64_t source_us, int64_t now_us)
{
    if (source_us > head->last_us && source_us <= now_us)
        return source_us;
    return now_us > head->last_us ? now_us : head->last_us + 1;
}

static enum status
place_entry(struct sequencer *s, struct log_set *set, const char *bytes,
            const struct fragment *f, size_t expected)
{
    int64_t now_us = s->acts.at_us;
    size_t size = f->size + FRAGMENT_STAMP_MAX, before;
    int64_t us = event_time(&set->draft, f->datetime_us, now_us);

    if (head_must_end_list(&set->draft, limits_of(s, set), size) &&
        end_list(s, set))
        return STATUS_MEMORY;
    if (set->filling && set->filling->size + size > BATCH_BYTES_MAX)
        finish_batch(set);
    if (!set->filling) {
        if (begin_batch(s, set) ||
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

static enum status
place_changes(struct sequencer *s, struct post *post)
{
    struct log_set *set = post->set;
    size_t at = 0;
    enum status rc = STATUS_OK;

    if (!set->draft.exists)
        rc = give_birth(s, set, post);
    post->first = set->draft.last + 1;
    for (size_t i = 0; !rc && i < post->n_fragments; i++) {
        /* The part of the post for this batch, for one allocation. */
        size_t expected = post->bytes.size - at +
                          (post->n_fragments - i) * FRAGMENT_STAMP_MAX;

        rc = place_entry(s, set, post->bytes.data + at, &post->fragments[i],
                         expected);
        at += post->fragments[i].size;
    }
    post->last = set->draft.last;
    post->last_us = set->draft.last_us;
    memcpy(post->epoch, set->draft.epoch, sizeof(post->epoch));
    if (!rc && post->key.size > 0)
        rc = idempotency_add(&s->acts, post);
    return rc;
}

static enum status
place_close(struct sequencer *s, struct post *post)
{
    const struct head *draft = &post->set->draft;

    post->ended = 0;
    if (!draft->exists || head_list_is_empty(draft) ||
        (post->list && post->list != draft->list))
        return STATUS_OK;
    post->ended = draft->list;
    return end_list(s, post->set);
}

static enum status
place_settings(struct sequencer *s, struct post *post)
{
    struct log_set *set = post->set;
    const struct act act = {
        .kind = ACT_SETTINGS,
        .settings = {post->settings, s->acts.at_us},
    };

    if (!set->draft.exists && give_birth(s, set, post))
        return STATUS_MEMORY;
    return add_act(s, set, &act);
}

/* The last number that was given, to a list or a generation. */
static uint64_t
last_number(const struct head *head)
{
    uint64_t last = head->list;

    for (int kind = 0; kind < GENERATION_KINDS; kind++)
        if (head->generations[kind].last > last)
            last = head->generations[kind].last;
    return last;
}

/* The set ends with this commit. Its open list ends without becoming a closed
 * one. Readers know the number of that list, so no later list gets it. */
static enum status
place_removal(struct sequencer *s, const struct post *post)
{
    const struct head *draft = &post->set->draft;
    const struct act act = {
        .kind = ACT_REMOVAL,
        .removal = {.first = draft->first_list,
                    .last = draft->list - 1,
                    .next_list = last_number(draft) + 1,
                    .removed_us = s->acts.at_us,
                    .due_us = s->acts.at_us + post->grace_us,
                    .creator = log_set_creator(post->set)},
    };

    return add_act(s, post->set, &act);
}

/* How many lists the engine lends at once, and so how many files are looked at
 * between two of its answers. */
#define STEP_LISTS 64

/* Returns the bytes of all files of a set behind a retirement. Each broker has
 * files of its own: a list that is not filed here counts nothing, and
 * place_filed does not count it later. */
static uint64_t
file_bytes_behind(struct sequencer *s, const struct log_set *set,
                  const struct act *act)
{
    char path[PATH_MAX];
    struct list_info lists[STEP_LISTS];
    uint64_t bytes = set->draft.file_bytes, next = act->retirement.first;
    size_t n = STEP_LISTS;
    int dir_fd;

    snprintf(path, sizeof(path), "%s/sets/%s/" LOG_CHANGES, s->options->dir,
             set->name);
    dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

/* The set's history begins later from this commit on, for everybody at once. */
static enum status
place_retirement(struct sequencer *s, const struct post *post)
{
    const struct head *draft = &post->set->draft;
    struct act act = *post->act;

    if (act.retirement.last < draft->first_list ||
        act.retirement.last >= draft->list)
        return STATUS_OK; /* retired already: there is no act */
    act.retirement.first = draft->first_list;
    act.retirement.file_bytes = file_bytes_behind(s, post->set, &act);
    act.retirement.open_list = draft->list;
    act.retirement.due_us = s->acts.at_us + post->grace_us;
    return add_act(s, post->set, &act);
}

/* Orders a list at the end of the log. */
static void
place_order(struct sequencer *s, const struct head *draft, struct act *act)
{
    struct generation *order = &act->generation.build;

    order->number = draft->generations[order->kind].last + 1;
    order->seq = draft->last;
    order->at_us = draft->last_us;
    order->completed_us = s->acts.at_us;
}

/* True if another broker of the cluster was first. An order follows the last
 * generation that its broker knew: that broker chose for the next number
 * whether the archive gets the list. A list must be the ordered one. */
static bool
is_overtaken(const struct sequencer *s, const struct generation *next,
             const struct generations *now)
{
    if (generation_is_order(next))
        return next->number != now->last;
    return s->options->journal && next->number != now->ordered.number;
}

static enum status
place_generation(struct sequencer *s, const struct post *post)
{
    const struct head *draft = &post->set->draft;
    struct act act = *post->act;
    const struct generation *next = &act.generation.build;
    const struct generations *now = &draft->generations[next->kind];

    if (is_overtaken(s, next, now))
        return STATUS_OK; /* there is no act */
    act.generation.is_first = now->current.number == 0;
    act.generation.due_us = s->acts.at_us + post->grace_us;
    act.generation.n_archived = now->n_archived;
    act.generation.first_archived = now->first_archived;
    if (generation_is_order(next)) {
        place_order(s, draft, &act);
    } else if (next->is_archived) {
        if (act.generation.n_archived++ == 0)
            act.generation.first_archived = next->number;
    }
    return add_act(s, post->set, &act);
}

static enum status
place_unarchived(struct sequencer *s, const struct post *post)
{
    struct act act = *post->act;
    const struct generations *now =
        &post->set->draft.generations[act.unarchived.kind];

    if (act.unarchived.from != now->first_archived)
        return STATUS_OK; /* another broker was first: there is no act */
    act.unarchived.n_archived = now->n_archived - act.unarchived.n;
    act.unarchived.last = now->last;
    act.unarchived.due_us = s->acts.at_us + post->grace_us;
    return add_act(s, post->set, &act);
}

static enum status
place_filed(struct sequencer *s, const struct post *post)
{
    const struct head *draft = &post->set->draft;
    struct act act = *post->act;

    /* Another broker may have retired the list before it was filed here. */
    act.filed.file_bytes = draft->file_bytes;
    if (act.filed.list >= draft->first_list)
        act.filed.file_bytes += act.filed.bytes;
    return add_act(s, post->set, &act);
}

static enum status
place_harvest(struct sequencer *s, struct post *post)
{
    if (!post->set->draft.exists && give_birth(s, post->set, post))
        return STATUS_MEMORY;
    return add_act(s, post->set, post->act);
}

static enum status
place_act(struct sequencer *s, struct post *post)
{
    switch (post->act->kind) {
    case ACT_REMOVAL:
        return place_removal(s, post);
    case ACT_RETIREMENT:
        return place_retirement(s, post);
    case ACT_GENERATION:
        return place_generation(s, post);
    case ACT_UNARCHIVED:
        return place_unarchived(s, post);
    case ACT_HARVEST:
        return place_harvest(s, post);
    case ACT_FILED:
        return place_filed(s, post);
    case ACT_PURGED:
    case ACT_SWEPT:
    case ACT_GUARD:
        return acts_add(&s->acts, NULL, post->act);
    case ACT_BIRTH: /* follow from posts of other kinds */
    case ACT_BATCH:
    case ACT_LIST_END:
    case ACT_KEY:
    case ACT_SETTINGS:
    case ACT_KINDS:
        break;
    }
    return STATUS_OK;
}

void
sequencer_init(struct sequencer *s, struct engine *engine,
               const struct log_options *options, atomic_size_t *forms)
{
    *s = (struct sequencer){
        .engine = engine, .options = options, .forms = forms};
    list_init(&s->touched);
}

/* The round concerns the set. */
static void
touch(struct sequencer *s, struct log_set *set)
{
    if (list_is_empty(&set->touched))
        list_append(&s->touched, &set->touched);
}

enum status
sequencer_place(struct sequencer *s, struct post *post)
{
    if (post->set)
        touch(s, post->set);
    switch (post->kind) {
    case POST_CHANGES:
        return place_changes(s, post);
    case POST_CLOSE:
        return place_close(s, post);
    case POST_SETTINGS:
        return place_settings(s, post);
    case POST_ACT:
        return place_act(s, post);
    case POST_RECORD: /* of another broker: sequencer_follow */
        break;
    }
    return STATUS_OK;
}

/* The batch becomes one of the round, which tail_publish takes over. */
static enum status
follow_batch(struct log_set *set, struct batch *b)
{
    if (!ONE_MORE(set->made, &set->made_capacity, set->n_made))
        return STATUS_MEMORY;
    set->made[set->n_made++] = batch_ref(b);
    return STATUS_OK;
}

enum status
sequencer_follow(struct sequencer *s, struct log_set *set,
                 const struct act *act, struct problem *why)
{
    uint32_t next =
        s->engine->ops->next_id(s->engine) + (uint32_t)s->acts.n_of[ACT_BIRTH];
    struct act own = *act;
    enum status rc = STATUS_OK;

    touch(s, set);
    if (!act_follows(act, &set->draft) ||
        act->set_id != (act->kind == ACT_BIRTH ? next : set->id))
        return problem(why, STATUS_DIFFERENT,
                       "the set %s is not here what it is there", set->name);
    switch (own.kind) {
    case ACT_BIRTH:
        set->id = own.set_id;
        log_set_begin_for(set, own.birth.creator);
        break;
    case ACT_BATCH:
        rc = follow_batch(set, (struct batch *)(uintptr_t)own.entries.batch);
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
    return rc ? problem_memory(why) : add_act(s, set, &own);
}

void
sequencer_finish(struct sequencer *s)
{
    struct list *after;
    struct log_set *set;

    list_each (set, after, &s->touched, touched)
        finish_batch(set);
}

static void
revert_set(struct log_set *set)
{
    list_remove(&set->touched);
    for (size_t i = 0; i < set->n_made; i++)
        batch_unref(set->made[i]);
    set->n_made = 0;
    set->filling = NULL;
    tail_head(&set->tail, &set->draft);
    if (!set->draft.exists)
        set->id = 0;
}

void
sequencer_revert(struct sequencer *s)
{
    struct list *after;
    struct log_set *set;

    list_each (set, after, &s->touched, touched)
        revert_set(set);
}
