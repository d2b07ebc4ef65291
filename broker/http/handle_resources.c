/*
 * handle_resources.c - PUT resources: the complete list of a source's
 * resources.
 */

#include "broker/archive/archiver.h"
#include "broker/archive/uploads.h"
#include "broker/base/metrics.h"
#include "broker/http/answers.h"
#include "broker/http/deferral.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/posts/content_check.h"
#include "broker/posts/decoding.h"
#include "broker/posts/ingest.h"
#include "broker/state/upload_file.h"
#include "proto/resourcesync/json.h"

/* A block of this size is written at once. */
#define BLOCK_BYTES ((size_t)2 << 20)

/* The most resources from one piece of the body need less. */
#define BLOCK_MAX ((size_t)16 << 20)

/* Resources of a source. */
#define COUNT_MAX (UINT64_C(1) << 40)

/* Memory of an upload, counted as of posts: a block, its keys, and the
 * parser. */
#define HELD ((size_t)6 << 20)

/*
 * The service thread reads the body, entry by entry, into a block in memory. A
 * worker writes a full block, and reads what is still packed; meanwhile the
 * connection pauses:
 *
 *    read_bytes --> decode --> block --(full: pause)--> step: upload_file_add
 *       ^                                                 |
 *       +----------------(resume)-------------------------+
 *
 *    the end --> step: upload_file_finish --> the archive thread --> the answer
 */
struct putting {
    struct deferral deferral; /* its holding counts HELD */
    char name[SET_NAME_MAX + 1];
    struct upload *upload;
    struct upload_file_about about;
    bool knows_held_back; /* the client reads `held_back` */
    struct input_reader *reader;
    struct decoding decoding;
    struct block block;
    struct holding place; /* one of UPLOADS_MAX */
    struct holding disk;  /* bytes of the staging file */

    /* For a set with inline content: content must exist */
    bool is_inline;
    struct buf digests; /* of the block's resources */

    uint64_t n_checked;
    struct content_pin *claim; /* later the archive thread's */
    struct upload_file *staging;
    struct upload_outcome outcome;
};

static struct putting *
putting_of(struct deferral *d)
{
    return list_entry(d, struct putting, deferral);
}

/* Called when nothing is left on the disk. */
static void
give_back(struct deferral *d)
{
    holding_end(&putting_of(d)->disk);
    holding_end(&putting_of(d)->place);
}

static void
free_upload(struct deferral *d)
{
    struct putting *p = putting_of(d);

    gunzip_free(p->decoding.gunzip);
    input_reader_free(p->reader);
    contents_end(p->claim, 0);
    buf_fini(&p->digests);
    block_fini(&p->block);
    give_back(d);
}

static void
discard_upload(struct deferral *d)
{
    struct putting *p = putting_of(d);

    upload_file_discard(p->staging);
    uploads_give_up(&d->http->archiver->uploads, p->upload);
}

/* The archive's answer */

static void
add_counts(struct buf *to, const char *set, const struct upload_outcome *o)
{
    const struct upload_counts *c = &o->counts;

    buf_add_format(to,
                   "\"set\":\"%s\",\"created\":%" PRIu64 ",\"updated\":%" PRIu64
                   ",\"deleted\":%" PRIu64 ",\"unchanged\":%" PRIu64
                   ",\"newer\":%" PRIu64 ",\"held_back\":%" PRIu64
                   ",\"resources\":%" PRIu64,
                   set, c->created, c->updated, c->deleted, c->unchanged,
                   c->newer, c->held_back, o->resources);
    if (o->last)
        buf_add_format(to, ",\"first\":%" PRIu64 ",\"last\":%" PRIu64, o->first,
                       o->last);
    else
        BUF_ADD(to, ",\"first\":null,\"last\":null");
    if (o->epoch[0])
        json_position_member(to, "position", o->epoch,
                             o->last ? o->last : o->head);
    else
        BUF_ADD(to, ",\"position\":null");
}

static void
answer_upload(struct deferral *d, struct request *rq)
{
    const struct putting *p = putting_of(d);
    const struct upload_outcome *o = &p->outcome;
    struct problem why = {""};
    struct response r;
    struct buf text = {.max = 4096};
    char excess[64];

    if (!o->counts.held_back || p->knows_held_back) {
        BUF_ADD(&text, "{");
        add_counts(&text, p->name, o);
        BUF_ADD(&text, "}\n");
        answers_buf(rq, 200, "application/json", NULL, &text);
        return;
    }
    /* 409 for a client that does not know that deletions may be held back: it
     * must not take the set for equal to its list. Waiting does not help, so
     * there is no Retry-After. */
    snprintf(excess, sizeof(excess), "more than %u %%", p->about.max_delete);
    if (p->about.left_out)
        snprintf(excess, sizeof(excess),
                 "and %" PRIu64 " rows of the list were left out",
                 p->about.left_out);
    problem_set(&why,
                "held back: %" PRIu64 " of %" PRIu64
                " resources would be deleted, %s; accept-deletions=%" PRIu64
                " says that it is meant. All else was done",
                o->counts.held_back, o->resources, excess, o->counts.held_back);
    BUF_ADD(&text, ",");
    add_counts(&text, p->name, o);
    BUF_ADD(&text, "\0");
    answers_count(METRIC_UPLOADS_REJECTED, 409);
    response_init(&r, 409, NULL, NULL);
    response_answer_problem(rq, &r, &why, text.data);
    buf_fini(&text);
}

/* On the archive thread. */
static void
on_done(const struct upload_outcome *outcome, void *user)
{
    struct putting *p = user;

    p->outcome = *outcome;
    /* After a failure, too, some changes may have been posted. */
    contents_end(p->claim, outcome->last);
    p->claim = NULL;
    deferral_end(&p->deferral, outcome->status, &outcome->why);
}

/* Hands it to the archive thread: it is complete and on the disk. */
static enum status
hand_over(struct deferral *d, struct problem *why)
{
    struct putting *p = putting_of(d);

    (void)why;
    uploads_hand_over(&d->http->archiver->uploads, p->upload, on_done, p);
    return STATUS_OK;
}

/* Writing */

static enum status
stage_block(struct putting *p, struct problem *why)
{
    struct contents *contents = p->deferral.http->archiver->contents;
    const struct content_block block = {
        .set_name = slice_of(p->name),
        .resources = &p->block,
        .digests = (struct digest *)(void *)p->digests.data,
        .first = p->n_checked + 1,
    };
    enum status rc = STATUS_OK;

    if (p->is_inline)
        rc = content_check_resources(p->deferral.http->registry, contents,
                                     &block, &p->claim, why);
    p->n_checked += p->block.n;
    if (!rc)
        rc = contents_hold(contents, &p->disk, upload_file_size(&p->block), 0,
                           why);
    if (!rc && !p->staging)
        rc = upload_file_begin(
            &p->staging, p->deferral.http->archiver->uploads.dir, p->name, why);
    if (!rc)
        rc = upload_file_add(p->staging, &p->block, why);
    if (!rc && p->deferral.is_last && p->claim)
        rc = contents_sync(p->claim, why);
    if (!rc && p->deferral.is_last) {
        rc = upload_file_finish(p->staging, &p->about, why);
        if (!rc)
            p->staging = NULL;
    }
    return rc;
}

static enum status
write_block(struct deferral *d, struct problem *why)
{
    struct putting *p = putting_of(d);
    enum status rc = STATUS_OK;

    while (!rc && p->block.bytes.size < BLOCK_BYTES &&
           gunzip_is_behind(p->decoding.gunzip))
        rc = gunzip_step(p->decoding.gunzip, why);
    if (rc || (p->block.bytes.size < BLOCK_BYTES && !d->is_last))
        return rc;
    rc = stage_block(p, why);
    block_clear(&p->block);
    buf_clear(&p->digests);
    return rc;
}

/* Reading */

static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    struct putting *p = user;
    struct link *links = NULL;
    struct link_text memento;
    struct change kept = *change;
    struct digest digest;
    enum status rc = STATUS_OK;

    if (p->is_inline)
        rc = content_check_digest(slice_of(p->name), change, &digest, why);
    if (rc)
        return rc;
    if (p->is_inline) {
        buf_add(&p->digests, &digest, sizeof(digest));
        links = ingest_add_memento(p->deferral.http->registry,
                                   slice_of(p->name), &kept, &memento);
    }
    rc = p->digests.failed ? problem_memory(why)
                           : block_add(&p->block, &kept, why);
    free(links);
    return rc;
}

static enum status
read_bytes(struct deferral *d, struct slice bytes, struct problem *why)
{
    return decoding_feed(&putting_of(d)->decoding, bytes, why);
}

static enum deferral_next
choose_next(struct deferral *d, struct problem *why)
{
    struct putting *p = putting_of(d);

    if (p->block.bytes.size >= BLOCK_BYTES ||
        gunzip_is_behind(p->decoding.gunzip)) {
        request_pause(d->rq);
        return DEFERRAL_STEPS;
    }
    return !d->is_whole                      ? DEFERRAL_READS
           : decoding_end(&p->decoding, why) ? DEFERRAL_FAILS
                                             : DEFERRAL_ENDS;
}

static const struct deferral_kind putting = {
    .take = read_bytes,
    .next = choose_next,
    .step = write_block,
    .discard = discard_upload,
    .begin = hand_over,
    .give_back = give_back,
    .answer = answer_upload,
    .fini = free_upload,
    .rejected = METRIC_UPLOADS_REJECTED,
};

/* The request */

static enum status
make_reader(struct putting *p, struct request *rq, struct problem *why)
{
    struct slice type = {NULL, 0};
    const struct format *format;

    request_header(rq, "content-type", &type);
    format = format_of(type);
    if (!format)
        return format_refuse("resources", type, why);
    p->reader =
        input_reader_new(format, INPUT_RESOURCES, SIZE_MAX, on_change, p);
    if (!p->reader)
        return problem_memory(why);
    p->decoding.reader = p->reader;
    return STATUS_OK;
}

enum status
handle_resources_put(const struct route_call *call)
{
    struct request *rq = call->rq;
    struct problem *why = call->why;
    struct http *http = call->http;
    struct putting *p = deferral_new(call, &putting, sizeof(*p));
    struct clients *clients = &http->registry->clients;
    struct client *client = request_client(rq);
    uint64_t percent = UPLOADS_MAX_DELETE;
    struct log_health health;
    struct slice coding, trace = query_traceparent(rq);
    struct head head;
    enum status rc =
        query_number(rq, "max-delete", 0, 100, &percent, NULL, why);

    p->about.max_delete = (unsigned)percent;
    if (trace.size > 0)
        memcpy(p->about.traceparent, trace.data, trace.size);
    if (!rc)
        rc = query_number(rq, "accept-deletions", 0, COUNT_MAX,
                          &p->about.accepted, &p->knows_held_back, why);
    if (!rc)
        rc = query_number(rq, "left-out", 0, COUNT_MAX, &p->about.left_out,
                          NULL, why);
    p->block.bytes.max = BLOCK_MAX;
    buf_init(&p->digests, BLOCK_MAX);
    memcpy(p->name, call->name.data, call->name.size);
    if (!rc)
        rc = make_reader(p, rq, why);
    if (!rc && request_header(rq, "content-encoding", &coding))
        rc = decoding_decode(&p->decoding, coding, call->body_max, why);
    if (!rc) {
        log_health(http->registry->log, &health);
        if (!health.has_room)
            rc = problem(why, STATUS_BUSY, "the disk is nearly full");
    }
    if (!rc) {
        holding_init(&p->place, clients, client, CLIENT_UPLOADS);
        holding_init(&p->disk, clients, client, CLIENT_DISK);
        rc = holding_add(&p->deferral.holding, HELD, why);
    }
    if (!rc)
        rc = holding_add(&p->place, 1, why);
    if (!rc)
        rc = uploads_begin(&http->archiver->uploads, call->name, client,
                           request_authority(rq), &p->upload, why);
    p->is_inline =
        registry_content(http->registry, call->name) == CONTENT_INLINE;
    /* Changes that others post from now on are newer. */
    if (!rc && registry_find(http->registry, call->name, &head)) {
        memcpy(p->about.epoch, head.epoch, sizeof(head.epoch));
        p->about.after = head.last;
    }
    return deferral_receive(&p->deferral, call, rc);
}
