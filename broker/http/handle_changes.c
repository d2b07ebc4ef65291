/*
 * handle_changes.c - POST changes.
 */
#include <string.h>

#include "broker/base/metrics.h"
#include "broker/http/answers.h"
#include "broker/http/deferral.h"
#include "broker/http/routes.h"
#include "broker/posts/ingest.h"

/* The ingest reads the body as it arrives; the answer comes back from the log
 * thread. If the connection breaks after the whole body has arrived, the
 * changes are still committed, but without an answer.
 *
 * If the ingest is behind the arrived bytes, a worker continues it, step by
 * step, and meanwhile the connection pauses. */
struct posting {
    struct deferral deferral;
    struct ingest *ingest;
};

static void
free_ingest(struct deferral *d)
{
    ingest_free(list_entry(d, struct posting, deferral)->ingest);
}

static enum status
feed_ingest(struct deferral *d, struct slice bytes, struct problem *why)
{
    return ingest_feed(list_entry(d, struct posting, deferral)->ingest, bytes,
                       why);
}

static enum status
choose_next(struct deferral *d, enum deferral_next *next, struct problem *why)
{
    (void)why;
    *next = d->is_whole ? DEFERRAL_BEGINS : DEFERRAL_READS;
    if (ingest_is_behind(list_entry(d, struct posting, deferral)->ingest)) {
        deferral_pause(d);
        *next = DEFERRAL_STEPS;
    }
    return STATUS_OK;
}

static enum status
catch_up(struct deferral *d, struct problem *why)
{
    return ingest_catch_up(list_entry(d, struct posting, deferral)->ingest,
                           why);
}

/* On the log thread. */
static void
on_committed(struct ingest *ingest, void *user)
{
    const struct post *post = ingest_post(ingest);

    deferral_end(user, post->status, &post->why);
}

static enum status
commit_post(struct deferral *d, struct request *rq, struct problem *why)
{
    struct posting *p = list_entry(d, struct posting, deferral);

    (void)rq;
    ingest_set_authority(p->ingest, authority_ref(d->authority));
    return ingest_end(p->ingest, on_committed, d, why);
}

static void
give_back(struct deferral *d)
{
    ingest_give_back(list_entry(d, struct posting, deferral)->ingest);
}

static void
answer_request(struct deferral *d, struct request *rq)
{
    answers_posted(rq, list_entry(d, struct posting, deferral)->ingest);
}

static const struct deferral_kind posting = {
    .take = feed_ingest,
    .next = choose_next,
    .step = catch_up,
    .begin = commit_post,
    .give_back = give_back,
    .answer = answer_request,
    .fini = free_ingest,
    .rejected = METRIC_POSTS_REJECTED,
    .incomplete = METRIC_POSTS_INCOMPLETE,
};

static enum status
set_key(struct request *rq, const struct principal *principal,
        struct ingest *ingest, struct problem *why)
{
    struct key key;
    enum status rc = answers_read_key(rq, principal, &key, why);

    return rc || key.size == 0 ? rc : ingest_set_key(ingest, &key, why);
}

void
handle_changes_post(struct http *http, struct request *rq,
                    const struct route_target *target)
{
    struct slice type = {NULL, 0}, encoding;
    struct problem why = {""};
    struct posting *p = deferral_new(http, rq, target, &posting, sizeof(*p));
    struct deferral *d = &p->deferral;
    enum status rc = answers_check_publisher(rq, &why);

    request_header(rq, "content-type", &type);
    if (!rc)
        rc = ingest_begin(&p->ingest, http->posts, target->name, type,
                          request_content_length(rq), &why);
    if (!rc)
        rc = ingest_count_in(p->ingest, &d->holding, &why);
    if (!rc && request_header(rq, "content-encoding", &encoding))
        rc = ingest_decode(p->ingest, encoding, &why);
    if (!rc)
        rc = set_key(rq, target->principal, p->ingest, &why);
    d->decides = true;
    if (rc)
        deferral_refuse(d, rq, rc, &why);
    else
        deferral_receive(d, rq, target->body_max);
}
