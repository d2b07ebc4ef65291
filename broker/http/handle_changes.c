/*
 * handle_changes.c - POST changes: alone, or with their content
 * (multipart/related).
 */

#include "broker/archive/archiver.h"
#include "broker/base/metrics.h"
#include "broker/http/answers.h"
#include "broker/http/deferral.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/posts/ingest.h"
#include "broker/posts/multipart_post.h"
#include "proto/ascii.h"
#include "proto/http/idempotency_key.h"
#include "proto/input/event_read.h"
#include "proto/resourcesync/json.h"
#include "proto/token.h"

/* Both forms */

/* Refuses deliveries of a hub, which are for a subscriber. If the broker took
 * one in, under whatever name the hub calls it, it would be news of the set, be
 * delivered again, and so on for ever. A set takes in the changes of another
 * one by its upstreamTopic. */
static enum status
check_publisher(struct request *rq, struct problem *why)
{
    struct slice delivery;

    if (!request_header(rq, "tidings-delivery", &delivery))
        return STATUS_OK;
    return problem(
        why, STATUS_INVALID,
        "a hub delivers this (Tidings-Delivery \"%s\"), and posts are "
        "for Sources: give the set that topic as its upstreamTopic",
        problem_quote(delivery).text);
}

_Static_assert(KEY_OWNER_SIZE > PRINCIPAL_NAME_MAX, "no name is cut");

/* Reads the Idempotency-Key, which belongs to the principal; size 0: none. */
static enum status
read_key(struct request *rq, const struct principal *principal, struct key *key,
         struct problem *why)
{
    struct slice value;
    enum status rc = STATUS_OK;

    key->size = 0;
    if (request_header(rq, "idempotency-key", &value))
        rc = key_read(value, key, why); /* which clears the owner */
    snprintf(key->owner, sizeof(key->owner), "%s", principal->name);
    return rc;
}

static bool
is_binary_event(const struct request *rq, struct slice type)
{
    struct slice name, value;

    return !event_read_is_structured(type) &&
           request_next_header(rq, EVENT_PREFIX, &(size_t){0}, &name, &value);
}

/* Decodes a field (CloudEvents, HTTP binding, section 3.1.3.2): a quoted
 * string, then escapes. -1: bad ones. */
static long
decode_attribute(struct slice value, char *to)
{
    size_t size = value.size;

    if (size > 0 && value.data[0] == '"') {
        if (!token_take_value(&value, to, size, &size) || value.size > 0)
            return -1;
    } else if (size > 0) {
        memcpy(to, value.data, size);
    }
    return uri_decode((struct slice){to, size}, to);
}

/* Gives the ingest the attributes of an event in binary mode. */
static enum status
add_attributes(const struct request *rq, struct slice type,
               struct ingest *ingest, struct problem *why)
{
    struct slice sent, value;
    enum status rc = event_read_attribute(ingest->reader,
                                          SLICE("datacontenttype"), type, why);

    for (size_t at = 0;
         !rc && request_next_header(rq, EVENT_PREFIX, &at, &sent, &value);) {
        char *text = memory_new(1, sent.size + value.size);
        long size = decode_attribute(value, text + sent.size);

        for (size_t i = 0; i < sent.size; i++)
            text[i] = ascii_lower(sent.data[i]);
        if (size < 0)
            rc = problem(why, STATUS_INVALID,
                         EVENT_PREFIX "%s: neither a quoted string nor text "
                                      "with escapes as %%20",
                         problem_quote((struct slice){text, sent.size}).text);
        else
            rc = event_read_attribute(
                ingest->reader, (struct slice){text, sent.size},
                (struct slice){text + sent.size, (size_t)size}, why);
        free(text);
    }
    return rc;
}

struct posting {
    struct deferral deferral;    /* with content its holding counts HELD and the
                                    post's memory */
    struct ingest *ingest;       /* of a post with content: once it is whole */
    struct multipart_post *post; /* has the ingest; NULL: there is no content */
    struct buf block;            /* the step's, of the content */
};

static struct posting *
posting_of(struct deferral *d)
{
    return list_entry(d, struct posting, deferral);
}

static void
discard_post(struct deferral *d)
{
    multipart_post_discard(posting_of(d)->post);
    posting_of(d)->post = NULL;
    posting_of(d)->ingest = NULL;
}

static void
free_post(struct deferral *d)
{
    if (posting_of(d)->post)
        discard_post(d);
    ingest_free(posting_of(d)->ingest);
    buf_fini(&posting_of(d)->block);
}

/* {"set":"demo","first":1,"last":3,"position":"...-3","datetime":"..."}; a
 * repeat gets the same bytes, so a header marks it. "known" counts the events
 * of a batch that were not added again. */
static void
answer_posted(struct deferral *d, struct request *rq)
{
    const struct ingest *ingest = posting_of(d)->ingest;
    const struct post *post = &ingest->post;
    struct response r;
    struct buf text = {.max = 4096};

    BUF_ADD(&text, "{\"set\":");
    json_text(&text, slice_of(ingest->set->name));
    json_number_member(&text, "first", post->first);
    json_number_member(&text, "last", post->last);
    json_position_member(&text, "position", post->epoch, post->last);
    json_datetime_member(&text, "datetime", post->last_us);
    if (post->n_known > 0 && !post->is_repeat)
        json_number_member(&text, "known", post->n_known);
    BUF_ADD(&text, "}\n");
    response_init(&r, 200, "application/json", NULL);
    if (post->is_repeat)
        response_header(&r, "Idempotent-Replayed", "true");
    response_text(&r, &text);
    ingest_end_span(ingest);
    request_answer(rq, &r);
    buf_fini(&text);
}

/* On the log thread. `user` is the deferral. */
static void
on_committed(struct ingest *ingest, void *user)
{
    deferral_end(user, ingest->post.status, &ingest->post.why);
}

/* Alone */

/* The ingest reads the body as it arrives; the answer comes back from the log
 * thread. If the connection breaks after the whole body has arrived, the
 * changes are still committed, but without an answer.
 *
 * If the ingest is behind the arrived bytes, a worker continues it, step by
 * step, and meanwhile the connection pauses. */
static enum status
feed_ingest(struct deferral *d, struct slice bytes, struct problem *why)
{
    return ingest_feed(posting_of(d)->ingest, bytes, why);
}

static enum deferral_next
choose_next(struct deferral *d, struct problem *why)
{
    (void)why;
    if (!gunzip_is_behind(posting_of(d)->ingest->decoding.gunzip))
        return d->is_whole ? DEFERRAL_BEGINS : DEFERRAL_READS;
    request_pause(d->rq);
    return DEFERRAL_STEPS;
}

static enum status
catch_up(struct deferral *d, struct problem *why)
{
    return gunzip_step(posting_of(d)->ingest->decoding.gunzip, why);
}

static enum status
commit_post(struct deferral *d, struct problem *why)
{
    struct posting *p = posting_of(d);

    ingest_set_authority(p->ingest, authority_ref(d->authority));
    return ingest_end(p->ingest, on_committed, d, why);
}

static void
give_back(struct deferral *d)
{
    ingest_give_back(posting_of(d)->ingest);
}

static const struct deferral_kind posting = {
    .take = feed_ingest,
    .next = choose_next,
    .step = catch_up,
    .begin = commit_post,
    .give_back = give_back,
    .answer = answer_posted,
    .fini = free_post,
    .rejected = METRIC_POSTS_REJECTED,
    .incomplete = METRIC_POSTS_INCOMPLETE,
};

enum status
handle_changes_post(const struct route_call *call)
{
    struct request *rq = call->rq;
    struct problem *why = call->why;
    struct slice type = {NULL, 0}, encoding, trace = query_traceparent(rq);
    struct posting *p = deferral_new(call, &posting, sizeof(*p));
    struct deferral *d = &p->deferral;
    enum status rc = check_publisher(rq, why);
    struct key key;
    bool is_event;

    request_header(rq, "content-type", &type);
    is_event = is_binary_event(rq, type);
    if (!rc)
        rc = ingest_begin(&p->ingest, call->http->posts, call->name,
                          is_event ? SLICE(EVENT_TYPE) : type, rq->in.length,
                          why);
    if (!rc && is_event)
        rc = add_attributes(rq, type, p->ingest, why);
    if (!rc)
        rc = ingest_count_in(p->ingest, &d->holding, why);
    if (!rc && request_header(rq, "content-encoding", &encoding))
        rc = ingest_decode(p->ingest, encoding, why);
    if (!rc)
        rc = read_key(rq, call->principal, &key, why);
    if (!rc && trace.size > 0)
        ingest_set_traceparent(p->ingest, trace);
    if (!rc)
        rc = ingest_set_key(p->ingest, &key, why);
    d->decides = true;
    return deferral_receive(d, call, rc);
}

/* With content */

/* A block of this size goes to the worker pool at once. */
#define BLOCK_BYTES ((size_t)512 << 10)

/* A block may be larger by the bytes that were read before the connection was
 * paused. */
#define BLOCK_MAX ((size_t)4 << 20)

/* Memory of a request, counted as of posts: two blocks and the parser. */
#define HELD (2 * BLOCK_BYTES + ((size_t)256 << 10))

/*
 * A worker parses one block, and writes it to the disk, while the next one
 * arrives; when that is full, too, the connection pauses:
 *
 *    body --(full, or all)--> block --> step: multipart_post_feed, _end
 *      ^                                        |
 *      +-----(full: pause; then resume)---------+--> the log --> answer
 *
 * A post that has arrived completely is kept even if the connection breaks
 * meanwhile.
 */
static enum status
keep_bytes(struct deferral *d, struct slice bytes, struct problem *why)
{
    buf_add_slice(&d->body, bytes);
    if (d->is_out && d->body.size >= BLOCK_BYTES)
        request_pause(d->rq);
    return d->body.failed ? problem_memory(why) : STATUS_OK;
}

static enum deferral_next
choose_block(struct deferral *d, struct problem *why)
{
    struct posting *p = posting_of(d);
    struct buf empty = p->block;

    (void)why;
    if (!d->is_whole && d->body.size < BLOCK_BYTES)
        return DEFERRAL_READS;
    buf_clear(&empty);
    p->block = d->body;
    d->body = empty;
    request_resume(d->rq);
    return d->is_whole ? DEFERRAL_ENDS : DEFERRAL_STEPS;
}

static enum status
read_block(struct deferral *d, struct problem *why)
{
    struct posting *p = posting_of(d);
    enum status rc = multipart_post_feed(p->post, buf_slice(&p->block), why);

    return rc || !d->is_last ? rc : multipart_post_end(p->post, why);
}

/* Hands it to the log: it is complete and on the disk. */
static enum status
commit_parts(struct deferral *d, struct problem *why)
{
    struct posting *p = posting_of(d);
    enum status rc;

    p->ingest = multipart_post_ingest(p->post);
    rc = ingest_end(p->ingest, on_committed, d, why);
    if (!rc)
        log_wake(d->http->registry->log);
    return rc;
}

static void
give_back_parts(struct deferral *d)
{
    multipart_post_give_back(posting_of(d)->post);
}

static const struct deferral_kind multipart_request = {
    .take = keep_bytes,
    .next = choose_block,
    .step = read_block,
    .discard = discard_post,
    .begin = commit_parts,
    .give_back = give_back_parts,
    .answer = answer_posted,
    .fini = free_post,
    .body_max = BLOCK_MAX,
    .rejected = METRIC_POSTS_REJECTED,
    .incomplete = METRIC_POSTS_INCOMPLETE,
};

enum status
handle_multipart_post(const struct route_call *call)
{
    struct request *rq = call->rq;
    struct problem *why = call->why;
    struct posting *p = deferral_new(call, &multipart_request, sizeof(*p));
    struct deferral *d = &p->deferral;
    struct key key;
    struct multipart_plan plan = {
        .contents = call->http->archiver->contents,
        .set_name = call->name,
        .content_type = {NULL, 0},
        .size = rq->in.length,
        .holding = &d->holding,
        .authority = request_authority(rq),
        .key = &key,
        .traceparent = query_traceparent(rq),
    };
    enum status rc = check_publisher(rq, why);

    buf_init(&p->block, BLOCK_MAX);
    d->is_counted = d->decides = true;
    request_header(rq, "content-type", &plan.content_type);
    if (!rc && is_binary_event(rq, plan.content_type))
        rc = problem(why, STATUS_INVALID,
                     EVENT_PREFIX "...: no event in binary mode has content "
                                  "beside it: post the event as part 1, of the "
                                  "type " EVENT_TYPE);
    if (!rc)
        rc = read_key(rq, call->principal, &key, why);
    if (!rc)
        rc = multipart_post_begin(&p->post, call->http->posts, &plan, why);
    if (!rc)
        rc = holding_add(&d->holding, HELD, why);
    return deferral_receive(d, call, rc);
}
