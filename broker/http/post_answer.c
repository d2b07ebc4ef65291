#include "broker/http/post_answer.h"

#include "broker/base/metrics.h"
#include "broker/http/answers.h"
#include "broker/net/response.h"
#include "proto/json.h"

/* Refuses deliveries of a hub, which are for a subscriber. If the broker took
 * one in, under whatever name the hub calls it, it would be news of the set, be
 * delivered again, and so on for ever. A set takes in the changes of another
 * one by its upstreamTopic. */
enum status
post_answer_check_publisher(struct request *rq, struct problem *why)
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

enum status
post_answer_key(struct request *rq, struct key *key, struct problem *why)
{
    struct slice value;

    key->size = 0;
    return request_header(rq, "idempotency-key", &value)
               ? key_read(value, key, why)
               : STATUS_OK;
}

/* {"set":"demo","first":1,"last":3,"position":"...-3","datetime":"..."} */
static void
answer_posted(struct request *rq, const struct set *set,
              const struct post *post)
{
    char position[POSITION_MAX], datetime[DATETIME_SIZE];
    struct response r;
    struct buf text;

    position_write(position, post->epoch, post->last);
    datetime_write(datetime, post->last_us);
    buf_init(&text, 4096);
    BUF_ADD(&text, "{\"set\":");
    json_string(&text, slice_of(set->name));
    BUF_ADD(&text, ",\"first\":");
    buf_add_number(&text, post->first);
    BUF_ADD(&text, ",\"last\":");
    buf_add_number(&text, post->last);
    BUF_ADD(&text, ",\"position\":\"");
    buf_add_text(&text, position);
    BUF_ADD(&text, "\",\"datetime\":\"");
    buf_add(&text, datetime, DATETIME_SIZE);
    BUF_ADD(&text, "\"}\n");
    response_init(&r, 200, "application/json");
    r.text = buf_slice(&text);
    request_answer(rq, &r);
    buf_fini(&text);
}

void
post_answer_count_rejected(enum status rc)
{
    metrics_add_label(METRIC_POSTS_REJECTED,
                      metrics_code(response_status_of(rc)), 1);
}

void
post_answer_answer(struct request *rq, const struct ingest *ingest)
{
    const struct post *post = ingest_post(ingest);

    if (post->status)
        post_answer_count_rejected(post->status);
    if (rq && post->status)
        answers_failure(rq, post->status, &post->why, NULL, NULL);
    else if (rq)
        answer_posted(rq, ingest_set(ingest), post);
}
