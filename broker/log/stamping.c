#include "broker/log/stamping.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/rand.h>

#include "base/clock.h"
#include "broker/log/endings.h"
#include "broker/log/set.h"
#include "broker/log/switching.h"
#include "proto/document.h"

static enum status
random_epoch(char to[EPOCH_SIZE + 1])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[EPOCH_SIZE / 2];

    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return STATUS_IO;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        to[2 * i] = digits[bytes[i] >> 4];
        to[2 * i + 1] = digits[bytes[i] & 15];
    }
    to[EPOCH_SIZE] = '\0';
    return STATUS_OK;
}

/* Begins the log of a set with its first post. */
static enum status
give_birth(struct committer *c, struct log_set *set, struct post *post)
{
    char epoch[EPOCH_SIZE + 1];
    struct engine_birth *births =
        ONE_MORE(c->births, &c->births_capacity, c->commit.n_births);

    if (!births || random_epoch(epoch))
        return STATUS_MEMORY;
    c->births = births;
    lists_start(&set->draft, epoch, clock_now_us());
    if (set->start_list)
        lists_number(&set->draft, set->start_list);
    /* Facts name it before the commit does. */
    if (c->engine->ops->next_id)
        set->id =
            c->engine->ops->next_id(c->engine) + (uint32_t)c->commit.n_births;
    births[c->commit.n_births++] = (struct engine_birth){
        .name = set->name, .head = &set->draft, .id = &set->id};
    post->is_birth = true;
    return committer_note(c, &(struct log_fact){.kind = FACT_BORN, .set = set});
}

static const struct list_limits *
limits_of(const struct committer *c, const struct log_set *set)
{
    return set->limits.entries ? &set->limits : &c->options->limits;
}

void
stamping_finish(struct log_set *set)
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
begin_batch(struct committer *c, struct log_set *set)
{
    struct batch **made = ONE_MORE(set->made, &set->made_capacity, set->n_made);
    struct engine_batch *batches =
        ONE_MORE(c->batches, &c->batches_capacity, c->commit.n_batches);

    if (made)
        set->made = made;
    if (batches)
        c->batches = batches;
    if (!made || !batches)
        return STATUS_MEMORY;
    set->filling = batch_new(set->draft.last, set->draft.last_us,
                             &set->draft.digest, &c->tails->forms);
    if (!set->filling)
        return STATUS_MEMORY;
    if (set->n_made == 0)
        set->draft.commit_after = set->draft.last;
    made[set->n_made++] = set->filling;
    batches[c->commit.n_batches++] =
        (struct engine_batch){.set = &set->id,
                              .batch = set->filling,
                              .commit_after = set->draft.commit_after};
    return STATUS_OK;
}

/* Ends the open list, which is not empty. Its header is made now and stored
 * with the end, so that no later setting or version can change a closed list.
 */
static enum status
end_list(struct committer *c, struct log_set *set)
{
    struct engine_end *ends =
        ONE_MORE(c->ends, &c->ends_capacity, c->commit.n_ends);
    struct engine_end *end;
    struct buf header;

    if (!ends)
        return STATUS_MEMORY;
    c->ends = ends;
    stamping_finish(set);
    buf_init(&header, DOCUMENT_FRAME_MAX);
    end = &ends[c->commit.n_ends++];
    end->set = &set->id;
    end->commit_after = set->draft.commit_after;
    end->info = lists_end(&set->draft);
    c->options->on_header(set, set->draft.epoch, &end->info, &header,
                          c->options->user);
    end->header = buf_slice(&header); /* freed by clear_round */
    if (header.failed)
        return STATUS_MEMORY;
    return committer_note(c, &(struct log_fact){.kind = FACT_CLOSED,
                                                .set = set,
                                                .list = end->info.number});
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
place(struct committer *c, struct log_set *set, const char *bytes,
      const struct fragment *f, size_t expected, int64_t now_us)
{
    size_t size = f->size + FRAGMENT_STAMP_MAX, before;
    int64_t us = event_time(&set->draft, f->datetime_us, now_us);

    if (lists_must_end(&set->draft, limits_of(c, set), size) &&
        end_list(c, set))
        return STATUS_MEMORY;
    if (set->filling && set->filling->size + size > BATCH_BYTES_MAX)
        stamping_finish(set);
    if (!set->filling) {
        if (begin_batch(c, set) ||
            batch_reserve(
                set->filling,
                expected < BATCH_BYTES_MAX ? expected : BATCH_BYTES_MAX, 16))
            return STATUS_MEMORY;
    }
    if (batch_reserve(set->filling, size, 1))
        return STATUS_MEMORY;

    before = set->filling->size;
    batch_add(set->filling, bytes, f, us);
    if (lists_is_empty(&set->draft))
        set->draft.list_first_us = now_us; /* its age counts from here */
    set->draft.last++;
    set->draft.last_us = us;
    set->draft.list_bytes += set->filling->size - before;
    if (lists_is_full(&set->draft, limits_of(c, set)))
        return end_list(c, set);
    return STATUS_OK;
}

static enum status
place_changes(struct committer *c, struct post *post, int64_t now_us)
{
    struct log_set *set = post->set;
    size_t at = 0;
    enum status rc = STATUS_OK;

    if (!set->draft.exists)
        rc = give_birth(c, set, post);
    post->first = set->draft.last + 1;
    for (size_t i = 0; !rc && i < post->n_fragments; i++) {
        /* What this batch will take of the post, for one allocation. */
        size_t expected = post->bytes.size - at +
                          (post->n_fragments - i) * FRAGMENT_STAMP_MAX;

        rc = place(c, set, post->bytes.data + at, &post->fragments[i], expected,
                   now_us);
        at += post->fragments[i].size;
    }
    post->last = set->draft.last;
    post->last_us = set->draft.last_us;
    memcpy(post->epoch, set->draft.epoch, sizeof(post->epoch));
    if (!rc && post->key.size > 0)
        rc = keys_add(&c->keys, post);
    return rc;
}

static enum status
place_close(struct committer *c, struct post *post)
{
    const struct head *draft = &post->set->draft;
    uint64_t wanted = post->list;

    post->list = 0;
    if (!draft->exists || lists_is_empty(draft) ||
        (wanted && wanted != draft->list))
        return STATUS_OK;
    post->list = draft->list;
    return end_list(c, post->set);
}

static enum status
place_filed(struct committer *c, struct post *post)
{
    struct engine_filed *filed =
        ONE_MORE(c->filed, &c->filed_capacity, c->commit.n_filed);

    if (!filed)
        return STATUS_MEMORY;
    c->filed = filed;
    post->set->draft.file_bytes += post->file_bytes;
    filed[c->commit.n_filed++] = (struct engine_filed){
        post->set->id, post->list, post->marks, post->set->draft.file_bytes};
    return STATUS_OK;
}

static enum status
place_settings(struct committer *c, struct post *post, int64_t now_us)
{
    struct log_set *set = post->set;
    struct engine_settings *settings;

    settings =
        ONE_MORE(c->settings, &c->settings_capacity, c->commit.n_settings);
    if (!settings)
        return STATUS_MEMORY;
    c->settings = settings;
    if (!set->draft.exists && give_birth(c, set, post))
        return STATUS_MEMORY;
    set->draft.changed_us = now_us;
    settings[c->commit.n_settings++] =
        (struct engine_settings){&set->id, post->settings, now_us};
    return committer_note(c, &(struct log_fact){.kind = FACT_SETTINGS,
                                                .set = set,
                                                .settings = post->settings});
}

enum status
stamping_place(struct committer *c, struct post *post, int64_t now_us)
{
    if (post->kind == POST_PURGED)
        return endings_purge(c, post);
    if (post->kind == POST_SWEPT)
        return switching_swept(c, post);
    if (list_is_empty(&post->set->touched))
        list_append(&c->touched, &post->set->touched);
    switch (post->kind) {
    case POST_CHANGES:
        return place_changes(c, post, now_us);
    case POST_CLOSE:
        return place_close(c, post);
    case POST_FILED:
        return place_filed(c, post);
    case POST_SETTINGS:
        return place_settings(c, post, now_us);
    case POST_REMOVE:
        return endings_removal(c, post, now_us);
    case POST_RETIRE:
        return endings_retirement(c, post, now_us);
    case POST_GENERATION:
        return switching_generation(c, post, now_us);
    case POST_UNARCHIVE:
        return switching_unarchive(c, post, now_us);
    case POST_PURGED:
    case POST_SWEPT:
        break;
    }
    return STATUS_OK;
}
