#include "broker/posts/ingest.h"

#include "base/array.h"
#include "broker/archive/contents.h"
#include "broker/base/metrics.h"
#include "broker/base/spans.h"
#include "broker/bucket/vault.h"
#include "broker/sets/set_change.h"

/* What a post costs before its first entry: parser, structs. */
#define HELD_AT_LEAST 16384

/* Most room for fragments that is allocated at once. */
#define ROOM_AT_ONCE ((uint64_t)1 << 20)

/* Bytes reserved in one go, so that not every entry needs a reservation. */
#define RESERVE_STEP 65536

/* Makes the reservation at least what the ingest holds. */
static enum status
reserve_memory(struct ingest *in, struct problem *why)
{
    size_t held = HELD_AT_LEAST + in->post.bytes.size +
                  in->post.n_fragments * sizeof(*in->post.fragments) +
                  in->post.n_events * sizeof(*in->post.events) +
                  in->contents.size + in->post.content_bytes.size;

    if (in->decoding.gunzip)
        held += gunzip_held(in->decoding.gunzip);
    return holding_cover(in->holding, &in->held, held,
                         in->post.n_fragments > 0 ? RESERVE_STEP : 0, why);
}

/* Of the first entry with data: its set must take them. */
static enum status
check_data(struct ingest *in, struct problem *why)
{
    const struct set *set =
        registry_find(in->posts->registry, in->set_name, NULL);

    in->takes_data = !set || !load_relaxed(&set->has_no_data);
    return in->takes_data
               ? STATUS_OK
               : problem(why, STATUS_INVALID,
                         "data: the set \"%.*s\" takes none, as its setting "
                         "noData says",
                         SLICE_ARG(in->set_name));
}

/* An entry has its own trace, or that of the post. */
static void
choose_traceparent(const struct ingest *in, struct change *change)
{
    if (change->traceparent.size > 0 &&
        !traceparent_is_valid(change->traceparent)) {
        metrics_add(METRIC_TRACEPARENTS_MALFORMED, 1);
        change->traceparent.size = 0;
    }
    if (change->traceparent.size == 0 && in->traceparent[0])
        change->traceparent = slice_of(in->traceparent);
}

/* Adds the last entry, which begins at byte `start`, without its trace. */
static void
digest_entry(struct digest *entries, const struct post *post, size_t start,
             bool has_trace)
{
    const struct fragment *f = &post->fragments[post->n_fragments];
    const char *bytes = post->bytes.data + start;
    struct slice time = {(const char *)&f->datetime_us, sizeof(f->datetime_us)};
    struct buf plain = {.max = f->size};

    if (has_trace) {
        size_t after = f->hole + FRAGMENT_TRACEPARENT_SIZE;

        buf_add(&plain, bytes, f->hole);
        buf_add(&plain, bytes + after, f->size - after);
        digest_add(entries, buf_slice(&plain));
        buf_fini(&plain);
    } else {
        digest_add(entries, (struct slice){bytes, f->size});
    }
    if (f->datetime_us != DATETIME_NONE)
        digest_add(entries, time);
}

/* Begins an event, unless the post has a key of its own. */
static enum status
on_event(const struct digest *key, void *user, struct problem *why)
{
    struct ingest *in = user;
    struct post *post = &in->post;

    if (post->key.size > 0)
        return STATUS_OK;
    if (post->n_events == INGEST_EVENTS_MAX)
        return problem(why, STATUS_TOO_LARGE,
                       "a batch has at most %d events: send several",
                       INGEST_EVENTS_MAX);
    /* One without entries is forgotten. */
    if (post->n_events == 0 ||
        post->events[post->n_events - 1].n_fragments > 0) {
        if (!ONE_MORE(post->events, &in->events_capacity, post->n_events))
            return problem_memory(why);
        post->n_events++;
    }
    post->events[post->n_events - 1] = (struct post_event){.key = *key};
    digest_sha256(&post->events[post->n_events - 1].entries, SLICE(""));
    return STATUS_OK;
}

/* Finds events that stand in the post twice. STATUS_INVALID: with other
 * contents. */
static enum status
find_twins(struct post *post, struct problem *why)
{
    uint64_t entry = 1;

    if (post->n_events > 0 && post->events[post->n_events - 1].n_fragments == 0)
        post->n_events--;
    for (size_t i = 0; i < post->n_events; i++) {
        struct post_event *event = &post->events[i];

        for (size_t k = 0; k < i && !event->is_twin; k++) {
            event->is_twin = digest_is_equal(&post->events[k].key, &event->key);
            if (event->is_twin &&
                !digest_is_equal(&post->events[k].entries, &event->entries)) {
                if (why)
                    why->entry = entry;
                return problem(why, STATUS_INVALID,
                               "an event before it has its source and id, "
                               "with other contents");
            }
        }
        entry += event->n_fragments;
    }
    return STATUS_OK;
}

struct link *
ingest_add_memento(const struct registry *registry, struct slice set_name,
                   struct change *change, struct link_text *href)
{
    size_t n = change->n_links;
    bool has_one = n == CHANGE_LINKS_MAX;
    struct digest digest;
    struct link *links;

    for (size_t i = 0; i < n; i++)
        has_one |= slice_is(change->links[i].rel, "memento");
    if (has_one || !hash_find_sha256(change->hash, &digest))
        return NULL;
    *href = link_format("%s/sets/%.*s/content/%s", registry->options.public_url,
                        SLICE_ARG(set_name),
                        strchr(digest_text(&digest).text, ':') + 1);
    links = memory_new(n + 1, sizeof(*links));
    if (n > 0)
        memcpy(links, change->links, n * sizeof(*links));
    links[n] = (struct link){.rel = SLICE("memento"),
                             .href = link_slice(href),
                             .modified_us = change->lastmod_us,
                             .length = LENGTH_NONE};
    change->links = links;
    change->n_links = n + 1;
    return links;
}

static enum status
add_entry(struct ingest *in, const struct change *given, struct problem *why)
{
    struct post *post = &in->post;
    size_t start = post->bytes.size;
    struct change filled = *given;
    const struct change *change = &filled;
    struct link *links = NULL;
    struct link_text memento;
    enum status rc = given->data.size > 0 && !in->takes_data
                         ? check_data(in, why)
                         : STATUS_OK;

    if (rc)
        return rc;
    if (in->fill) {
        rc = in->fill(&filled, in->fill_user, why);
        if (rc)
            return rc;
    } else if (in->is_checked && change->kind != CHANGE_DELETED) {
        /* Without a part, a change must name bytes that the set has. */
        struct ingest_content content = {.entry = in->n_entries, .loc = start};

        if (!hash_find_sha256(change->hash, &content.digest))
            return problem(why, STATUS_INVALID,
                           "the set \"%.*s\" keeps content inline: post the "
                           "bytes of \"%s\" with the change, as "
                           "multipart/related, or give the sha-256 of bytes "
                           "that it has",
                           SLICE_ARG(in->set_name),
                           problem_quote(change->loc).text);
        buf_add(&in->contents, &content, sizeof(content));
        if (in->contents.failed)
            return problem_memory(why);
    }
    choose_traceparent(in, &filled);
    if (!ONE_MORE(post->fragments, &in->fragments_capacity, post->n_fragments))
        return problem_memory(why);
    if (in->is_kept)
        links = ingest_add_memento(in->posts->registry, in->set_name, &filled,
                                   &memento);
    rc = fragment_write(&post->bytes, change,
                        &post->fragments[post->n_fragments], why);
    free(links);
    if (rc)
        return rc;
    if (post->n_events > 0) {
        struct post_event *event = &post->events[post->n_events - 1];

        digest_entry(&event->entries, post, start, filled.traceparent.size > 0);
        event->n_fragments++;
    } else if (post->key.size > 0 || in->is_message) {
        digest_entry(&post->entries, post, start, filled.traceparent.size > 0);
    }
    post->n_fragments++;
    return reserve_memory(in, why);
}

/* Messages: where an entry comes from
 *
 * Two sets that feed each other, or more in a ring, would pass an entry on for
 * ever. So each entry carries tags of its way: from set A to set B it gets the
 * tag via:EPOCH-OF-A, which B's own messages repeat. When the entry comes back
 * to A by any way, A recognizes it. An epoch belongs to the log of one set
 * only.
 */

#define VIA      "via:"
#define VIA_SIZE (sizeof(VIA) - 1 + EPOCH_SIZE)

/* True if `tags`, separated by single spaces, has via:EPOCH. */
static bool
is_via(struct slice tags, const char *epoch)
{
    while (epoch[0] && tags.size > 0) {
        struct slice tag = slice_take(&tags, ' ');

        if (tag.size == VIA_SIZE && !memcmp(tag.data, VIA, sizeof(VIA) - 1) &&
            !memcmp(tag.data + sizeof(VIA) - 1, epoch, EPOCH_SIZE))
            return true;
    }
    return false;
}

static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    struct ingest *in = user;
    const char *origin;
    struct change marked;
    struct problem reason = {""};
    struct buf tags = {.max = change->tags.size + 1 + VIA_SIZE};
    enum status rc;

    in->n_entries++;
    if (!in->is_message)
        return add_entry(in, change, why);
    /* A message has its epoch before its changes, or none: input_formats.h. */
    origin = in->reader->coverage.epoch;
    if ((origin[0] && !strcmp(origin, in->target_epoch)) ||
        is_via(change->tags, in->target_epoch))
        return STATUS_OK;
    if (!origin[0] || is_via(change->tags, origin))
        return add_entry(in, change, why);
    marked = *change;
    buf_add_slice(&tags, change->tags);
    if (change->tags.size > 0)
        BUF_ADD(&tags, " ");
    BUF_ADD(&tags, VIA);
    buf_add(&tags, origin, EPOCH_SIZE);
    marked.tags = buf_slice(&tags);
    rc =
        tags.failed ? problem_memory(&reason) : add_entry(in, &marked, &reason);
    if (rc == STATUS_INVALID)
        rc = problem(why, rc, "with the tag \"" VIA "%s\" %s", origin,
                     reason.text);
    else if (rc && why)
        *why = reason;
    buf_fini(&tags);
    return rc;
}

enum status
ingest_begin(struct ingest **ingest, struct posts *posts, struct slice set_name,
             struct slice content_type, uint64_t content_length,
             struct problem *why)
{
    struct registry *registry = posts->registry;
    const struct config *config = registry->config;
    const struct format *format;
    struct ingest *in;
    enum status rc = name_check("set", set_name, why);

    if (rc)
        return rc;
    format = format_of(content_type);
    if (!format)
        return format_refuse("changes", content_type, why);
    if (content_length > config->max_body)
        return problem(why, STATUS_TOO_LARGE,
                       "a post has at most %" PRIu64 " bytes, not %" PRIu64,
                       config->max_body, content_length);

    in = memory_new(1, sizeof(*in));
    in->posts = posts;
    holding_init(&in->own, &registry->clients, NULL, CLIENT_POSTS);
    in->holding = &in->own;
    memcpy(in->name, set_name.data, set_name.size);
    in->set_name = (struct slice){in->name, set_name.size};
    in->is_kept = registry_content(registry, set_name) == CONTENT_INLINE;
    in->is_checked = posts->check && in->is_kept;
    /* A fragment can be a few times larger than the posted entry (five
     * characters for an ampersand, say); the memory for posts bounds the rest.
     * The buffers have room for one entry more, so that the limit, and no lack
     * of memory, is the reason of the refusal. */
    buf_init(&in->contents, (size_t)config->ingest_bytes + FRAGMENT_MAX);
    in->post.kind = POST_CHANGES;
    buf_init(&in->post.bytes, (size_t)config->ingest_bytes + FRAGMENT_MAX);
    /* Fragments are about as large as the body: reserve that at once. If that
     * fails, the buffer grows, or fails, later. */
    buf_room(&in->post.bytes, content_length < ROOM_AT_ONCE
                                  ? (size_t)content_length
                                  : (size_t)ROOM_AT_ONCE);
    buf_clear(&in->post.bytes);
    in->reader = parser_pool_take(&posts->parsers, format, on_change, in);
    in->reader->options.on_event = on_event;
    in->reader->options.event_user = in;
    in->decoding.reader = in->reader;
    rc = reserve_memory(in, why);
    if (rc)
        ingest_free(in);
    else
        *ingest = in;
    return rc;
}

enum status
ingest_count_in(struct ingest *in, struct holding *holding, struct problem *why)
{
    enum status rc = holding_add(holding, in->held, why);

    if (rc)
        return rc;
    holding_release(in->holding, in->held);
    in->holding = holding;
    return STATUS_OK;
}

enum status
ingest_decode(struct ingest *in, struct slice coding, struct problem *why)
{
    enum status rc = decoding_decode(
        &in->decoding, coding, in->posts->registry->config->max_body, why);

    return rc ? rc : reserve_memory(in, why);
}

/* Takes the current epoch of the set. A message that this set has sent carries
 * the same epoch, unless the set was removed since then and another one has its
 * name. */
void
ingest_take_message(struct ingest *in, const char *owner)
{
    struct head head;

    in->reader->options.takes_message = true;
    in->is_message = true;
    snprintf(in->key.owner, sizeof(in->key.owner), "%s", owner);
    in->post.key_owner = slice_of(in->key.owner);
    if (owner[0])
        in->owner =
            client_of_owner(&in->posts->registry->clients, slice_of(owner));
    if (registry_find(in->posts->registry, in->set_name, &head))
        memcpy(in->target_epoch, head.epoch, sizeof(in->target_epoch));
    digest_sha256(&in->post.entries, SLICE(""));
}

/* Gives the post the key `key`, unless another post has it. */
static enum status
take_key(struct ingest *in, struct problem *why)
{
    struct slice text = key_slice(&in->key);

    in->running.set = in->set_name;
    in->running.key = text;
    in->running.owner = slice_of(in->key.owner);
    if (!pending_keys_begin(&in->posts->keys, &in->running))
        return problem(why, STATUS_RUNNING,
                       "a post with the Idempotency-Key \"%s\" is at work",
                       problem_quote(text).text);
    in->post.key = text;
    in->post.key_owner = in->running.owner;
    return STATUS_OK;
}

enum status
ingest_set_key(struct ingest *in, const struct key *key, struct problem *why)
{
    memcpy(in->key.owner, key->owner, sizeof(in->key.owner));
    in->post.key_owner = slice_of(in->key.owner);
    if (key->size == 0)
        return STATUS_OK;
    in->key = *key;
    digest_sha256(&in->post.entries, SLICE(""));
    return take_key(in, why);
}

void
ingest_set_traceparent(struct ingest *in, struct slice traceparent)
{
    memcpy(in->traceparent, traceparent.data, TRACEPARENT_SIZE);
    if (spans_are_wanted(traceparent))
        in->span_begin_us = clock_now_us();
}

void
ingest_end_span(const struct ingest *in)
{
    struct span span = {.kind = SPAN_POST,
                        .first = in->post.first,
                        .last = in->post.last,
                        .begin_us = in->span_begin_us,
                        .status = 200};

    if (!in->span_begin_us)
        return;
    span.end_us = clock_now_us();
    memcpy(span.traceparent, in->traceparent, TRACEPARENT_SIZE);
    memcpy(span.set, in->set_name.data, in->set_name.size);
    spans_add(&span);
}

void
ingest_set_authority(struct ingest *in, struct authority *authority)
{
    authority_unref(in->authority);
    in->post.authority = in->authority = authority;
}

enum status
ingest_feed(struct ingest *in, struct slice bytes, struct problem *why)
{
    enum status rc;

    ingest_heard(in);
    rc = decoding_feed(&in->decoding, bytes, why);
    return rc ? rc : reserve_memory(in, why);
}

/* Addresses the post to the current set of its name, or to the set for which
 * its content was placed. */
static enum status
choose_set(struct ingest *in, struct problem *why)
{
    struct client *client = in->is_message ? in->owner : in->holding->client;
    enum status rc;

    if (!in->is_message)
        in->post.client = in->holding->client;
    if (in->pin) {
        in->post.set = in->set->log;
        return STATUS_OK;
    }
    rc = registry_check_room(in->posts->registry, in->set_name, client,
                             in->post.bytes.size, why);
    if (!rc)
        rc = registry_make(in->posts->registry, in->set_name, client, &in->set,
                           why);
    /* Nobody waits for a place: later messages would wait, too. */
    if (rc == STATUS_LIMITED && in->is_message)
        return STATUS_INVALID;
    if (rc)
        return rc;
    in->post.set = in->set->log;
    return STATUS_OK;
}

static void
release_pin(struct ingest *in, uint64_t last)
{
    if (in->pin)
        in->on_pin_end(in->pin, last);
    in->pin = NULL;
}

static void
finish_post(struct ingest *in)
{
    release_pin(in, in->post.status ? 0 : in->post.last);
    /* Before on_done: a source that repeats the post then does not find it
     * running. */
    pending_keys_end(&in->posts->keys, &in->running);
    in->on_done(in, in->user);
}

static void
on_committed(struct post *post)
{
    struct ingest *in = list_entry(post, struct ingest, post);

    /* The set was removed while the post waited: the post now goes to a new
     * set, perhaps one that a later post has made. Later posts must not
     * overtake it, so it keeps its place. */
    if (post->status == STATUS_GONE && !in->pin) {
        post->status = choose_set(in, &post->why);
        if (!post->status) {
            log_submit_again(in->posts->registry->log, post);
            return;
        }
    }
    finish_post(in);
}

enum status
ingest_read_end(struct ingest *in, struct problem *why)
{
    enum status rc = decoding_end(&in->decoding, why);
    struct slice id = key_slice(&in->reader->id);

    /* Takes the key from the member "id", after the reader's end. */
    if (!rc && in->post.n_fragments > 0 && in->is_message &&
        in->key.size == 0 && id.size > 0) {
        memcpy(in->key.text, id.data, id.size);
        in->key.size = id.size;
        rc = take_key(in, why);
    }
    if (!rc)
        rc = find_twins(&in->post, why);
    if (rc)
        return rc;
    gunzip_free(in->decoding.gunzip);
    in->decoding.gunzip = NULL;
    parser_pool_give(&in->posts->parsers, in->reader);
    in->reader = NULL;
    in->is_read = true;
    return STATUS_OK;
}

static enum status
submit_post(struct ingest *in, struct problem *why)
{
    enum status rc = choose_set(in, why);

    return rc ? rc : log_submit_later(in->posts->registry->log, &in->post, why);
}

enum status
ingest_end(struct ingest *in, void (*on_done)(struct ingest *, void *),
           void *user, struct problem *why)
{
    enum status rc = in->is_read ? STATUS_OK : ingest_read_end(in, why);

    if (rc)
        return rc;
    in->post.done = on_committed;
    in->on_done = on_done;
    in->user = user;
    if (in->post.n_fragments == 0) { /* a message */
        finish_post(in);
        return STATUS_OK;
    }
    pending_keys_whole(&in->running);
    /* Posts of a line keep their order, so those without content to check take
     * this way, too. */
    if ((in->is_checked && !in->fill &&
         (in->contents.size > 0 || in->post.line)) ||
        (in->pin && vault_keeps_content()))
        return in->posts->check(in, in->posts->check_user, why);
    return submit_post(in, why);
}

void
ingest_check_end(struct ingest *in, enum status rc, const struct problem *why)
{
    if (why)
        in->post.why = *why;
    if (!rc)
        rc = submit_post(in, &in->post.why);
    if (rc) {
        in->post.status = rc;
        finish_post(in);
    }
}

void
ingest_hold(struct ingest *in, struct set *set, struct content_pin *pin,
            void (*on_end)(struct content_pin *pin, uint64_t last))
{
    in->set = set;
    in->pin = pin;
    in->on_pin_end = on_end;
}

enum status
ingest_carry(struct ingest *in, struct problem *why)
{
    enum status rc =
        in->pin ? contents_carry(in->set, &in->post, why) : STATUS_OK;

    return rc ? rc : reserve_memory(in, why);
}

void
ingest_heard(struct ingest *in)
{
    if (in->post.key.size > 0)
        pending_keys_heard(&in->running);
}

void
ingest_give_back(struct ingest *in)
{
    holding_release(in->holding, in->held);
    in->held = 0;
    holding_end(&in->own);
}

void
ingest_free(struct ingest *in)
{
    if (!in)
        return;
    release_pin(in, 0);
    pending_keys_end(&in->posts->keys, &in->running);
    gunzip_free(in->decoding.gunzip);
    parser_pool_give(&in->posts->parsers, in->reader);
    ingest_give_back(in);
    buf_fini(&in->post.bytes);
    buf_fini(&in->contents);
    buf_fini(&in->post.contents);
    buf_fini(&in->post.content_bytes);
    free(in->post.fragments);
    free(in->post.events);
    client_unref(in->owner);
    authority_unref(in->authority);
    free(in);
}
