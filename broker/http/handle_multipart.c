/*
 * handle_multipart.c - POST changes with their content: multipart/related.
 */
#include "broker/archive/archiver.h"
#include "broker/base/metrics.h"
#include "broker/http/answers.h"
#include "broker/http/deferral.h"
#include "broker/http/routes.h"
#include "broker/posts/multipart_post.h"

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
struct multipart_request {
    struct deferral
        deferral; /* its holding counts HELD and the post's memory */
    struct multipart_post *post;
    struct buf block; /* the step's */
};

static struct multipart_request *
request_of(struct deferral *d)
{
    return list_entry(d, struct multipart_request, deferral);
}

static void
discard_post(struct deferral *d)
{
    multipart_post_discard(request_of(d)->post);
    request_of(d)->post = NULL;
}

static void
free_post(struct deferral *d)
{
    discard_post(d);
    buf_fini(&request_of(d)->block);
}

/* Reading */

static enum status
keep_bytes(struct deferral *d, struct slice bytes, struct problem *why)
{
    buf_add_slice(&d->body, bytes);
    if (d->is_out && d->body.size >= BLOCK_BYTES)
        deferral_pause(d);
    return d->body.failed ? problem_memory(why) : STATUS_OK;
}

static enum status
choose_next(struct deferral *d, enum deferral_next *next, struct problem *why)
{
    struct multipart_request *m = request_of(d);
    struct buf empty = m->block;

    (void)why;
    if (!d->is_whole && d->body.size < BLOCK_BYTES) {
        *next = DEFERRAL_READS;
        return STATUS_OK;
    }
    buf_clear(&empty);
    m->block = d->body;
    d->body = empty;
    deferral_resume(d);
    *next = d->is_whole ? DEFERRAL_ENDS : DEFERRAL_STEPS;
    return STATUS_OK;
}

static enum status
read_block(struct deferral *d, struct problem *why)
{
    struct multipart_request *m = request_of(d);
    enum status rc = multipart_post_feed(m->post, buf_slice(&m->block), why);

    return rc || !d->is_last ? rc : multipart_post_end(m->post, why);
}

/* Committing */

/* On the log thread. */
static void
on_committed(struct ingest *ingest, void *user)
{
    const struct post *post = ingest_post(ingest);

    deferral_end(user, post->status, &post->why);
}

/* Hands it to the log: it is complete and on the disk. */
static enum status
commit_post(struct deferral *d, struct request *rq, struct problem *why)
{
    enum status rc =
        multipart_post_commit(request_of(d)->post, on_committed, d, why);

    (void)rq;
    if (!rc)
        log_wake(registry_log(d->http->registry));
    return rc;
}

static void
give_back(struct deferral *d)
{
    multipart_post_give_back(request_of(d)->post);
}

static void
answer_request(struct deferral *d, struct request *rq)
{
    answers_posted(rq, multipart_post_ingest(request_of(d)->post));
}

static const struct deferral_kind multipart_request = {
    .take = keep_bytes,
    .next = choose_next,
    .step = read_block,
    .discard = discard_post,
    .begin = commit_post,
    .give_back = give_back,
    .answer = answer_request,
    .fini = free_post,
    .body_max = BLOCK_MAX,
    .rejected = METRIC_POSTS_REJECTED,
    .incomplete = METRIC_POSTS_INCOMPLETE,
};

static enum status
begin_post(struct multipart_request *m, struct request *rq,
           const struct route_target *target, struct problem *why)
{
    struct deferral *d = &m->deferral;
    struct slice type = {NULL, 0};
    struct key key;
    enum status rc = answers_check_publisher(rq, why);

    request_header(rq, "content-type", &type);
    if (!rc)
        rc = answers_read_key(rq, target->principal, &key, why);
    if (!rc) {
        const struct multipart_plan plan = {
            .contents = archiver_contents(d->http->archiver),
            .set_name = target->name,
            .content_type = type,
            .size = request_content_length(rq),
            .holding = &d->holding,
            .authority = request_authority(rq),
        };

        rc = multipart_post_begin(&m->post, d->http->posts, &plan, why);
    }
    if (rc)
        return rc;
    multipart_post_set_key(m->post, &key);
    return holding_add(&d->holding, HELD, why);
}

void
handle_multipart_post(struct http *http, struct request *rq,
                      const struct route_target *target)
{
    struct multipart_request *m =
        deferral_new(http, rq, target, &multipart_request, sizeof(*m));
    struct problem why = {""};
    enum status rc = begin_post(m, rq, target, &why);

    buf_init(&m->block, BLOCK_MAX);
    m->deferral.is_counted = m->deferral.decides = true;
    if (rc)
        deferral_refuse(&m->deferral, rq, rc, &why);
    else
        deferral_receive(&m->deferral, rq, target->body_max);
}
