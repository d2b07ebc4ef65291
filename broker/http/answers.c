#include "broker/http/answers.h"

#include <stdio.h>

#include "broker/http/deferral.h"
#include "broker/net/response.h"
#include "proto/resourcesync/json.h"

struct set *
answers_find_set(struct http *http, struct request *rq, struct slice name,
                 const struct principal *principal, unsigned rights,
                 struct head *head)
{
    bool was_removed;
    struct set *set = registry_look(http->registry, name, head, &was_removed);

    if (set &&
        (set_is_visible(set, principal) ||
         (!principal->is_everyone &&
          rights_include(&principal->rights,
                         rights & (RIGHT_PUBLISH | RIGHT_MANAGE), name))))
        return set;
    was_removed = !set && was_removed && principal_sees(principal, name, true);
    request_refuse(rq, was_removed ? 410 : 404,
                   was_removed ? "the set \"%s\" was removed"
                               : "there is no set \"%s\"",
                   problem_quote(name).text);
    return NULL;
}

const char *
answers_cache_control(bool is_private)
{
    return is_private ? "private, no-cache" : "no-cache";
}

enum status
answers_may_publish(const struct http *http, struct problem *why)
{
    if (http->is_near || !tokens_are_open(http->tokens))
        return STATUS_OK;
    return problem(why, STATUS_INVALID,
                   "publishing to the hub, relays, and sets with an "
                   "upstreamTopic or hubs need tokens, or a broker that only "
                   "its own machine can reach; this one was started with "
                   "--insecure-open");
}

void
answers_failure(struct request *rq, enum status rc, const struct problem *why)
{
    request_answer_problem(rq, response_status_of(rc), why);
}

bool
answers_prefer_page(struct request *rq)
{
    struct slice text;

    return request_prefers_page(rq) && !request_parameter(rq, "raw", &text);
}

void
answers_buf(struct request *rq, unsigned status, const char *content_type,
            const char *caching, struct buf *text)
{
    struct response r;

    response_init(&r, status, content_type);
    if (caching)
        response_header(&r, "Cache-Control", "%s", caching);
    response_text(&r, text);
    request_answer(rq, &r);
    buf_fini(text);
}

/* Posts of changes */

/* Refuses deliveries of a hub, which are for a subscriber. If the broker took
 * one in, under whatever name the hub calls it, it would be news of the set, be
 * delivered again, and so on for ever. A set takes in the changes of another
 * one by its upstreamTopic. */
enum status
answers_check_publisher(struct request *rq, struct problem *why)
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

enum status
answers_read_key(struct request *rq, const struct principal *principal,
                 struct key *key, struct problem *why)
{
    struct slice value;
    enum status rc = STATUS_OK;

    key->size = 0;
    if (request_header(rq, "idempotency-key", &value))
        rc = key_read(value, key, why);
    snprintf(key->owner, sizeof(key->owner), "%s", principal->name);
    return rc;
}

/* {"set":"demo","first":1,"last":3,"position":"...-3","datetime":"..."}; a
 * repeat gets the same bytes, so a header marks it. */
void
answers_posted(struct request *rq, const struct ingest *ingest)
{
    const struct post *post = ingest_post(ingest);
    char position[POSITION_MAX], datetime[DATETIME_SIZE];
    struct response r;
    struct buf text;

    position_write(position, post->epoch, post->last);
    datetime_write(datetime, post->last_us);
    buf_init(&text, 4096);
    BUF_ADD(&text, "{\"set\":");
    json_text(&text, slice_of(ingest_set(ingest)->name));
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
    if (post->is_repeat)
        response_header(&r, "Idempotent-Replayed", "true");
    response_text(&r, &text);
    request_answer(rq, &r);
    buf_fini(&text);
}

/* Texts that a worker writes */

struct written_text {
    struct deferral deferral;
    const char *content_type;
    void (*write)(struct http *http, const struct principal *principal,
                  struct buf *to);
    struct buf text;
};

static enum status
write_text(struct deferral *d, struct problem *why)
{
    struct written_text *m = list_entry(d, struct written_text, deferral);

    m->write(d->http, d->principal, &m->text);
    return m->text.failed ? problem_memory(why) : STATUS_OK;
}

static void
answer_text(struct deferral *d, struct request *rq)
{
    struct written_text *m = list_entry(d, struct written_text, deferral);

    answers_buf(rq, 200, m->content_type, "no-store", &m->text);
}

static void
free_text(struct deferral *d)
{
    buf_fini(&list_entry(d, struct written_text, deferral)->text);
}

static const struct deferral_kind written_text = {
    .work = write_text, .answer = answer_text, .fini = free_text};

void
answers_text(struct http *http, struct request *rq,
             const struct route_target *target, const char *content_type,
             size_t max,
             void (*write)(struct http *http, const struct principal *principal,
                           struct buf *to))
{
    struct written_text *m =
        deferral_new(http, rq, target, &written_text, sizeof(*m));

    m->content_type = content_type;
    m->write = write;
    buf_init(&m->text, max);
    deferral_begin(&m->deferral, rq);
}
