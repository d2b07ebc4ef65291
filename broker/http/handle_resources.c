/*
 * handle_resources.c - PUT resources: the complete list of a source's
 * resources.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "broker/archive/archiver.h"
#include "broker/archive/uploads.h"
#include "broker/base/metrics.h"
#include "broker/http/answers.h"
#include "broker/http/routes.h"
#include "broker/net/response.h"
#include "broker/posts/content_check.h"
#include "broker/posts/decoding.h"
#include "broker/state/upload_file.h"
#include "proto/memory.h"
#include "proto/number.h"
#include "proto/resourcesync/json.h"

/* A block of this size is written at once. */
#define BLOCK_BYTES ((size_t)2 << 20)

/* The most resources from one piece of the body need less. */
#define BLOCK_MAX ((size_t)16 << 20)

/* The bytes read while a block is written are fewer. */
#define WAITING_MAX ((size_t)4 << 20)

/* Resources of a source. */
#define COUNT_MAX (UINT64_C(1) << 40)

/* Memory of an upload, counted as of posts: a block, its keys, and the
 * parser. */
#define HELD ((size_t)6 << 20)

/*
 * The service thread reads the body, entry by entry, into a block in memory.
 * The worker pool writes a full block, and meanwhile the connection pauses:
 *
 *    on_data --> decode --> block --(full: pause)--> job: upload_file_add
 *       ^                                                 |
 *       +----------------(resume)-------------------------+
 *
 *    on_end --> job: upload_file_finish --> the archive thread --> on_answered
 *
 * After a failure before the archive thread has it, a job deletes its file
 * before the answer, so that the client may begin again at once. `rq` is NULL
 * after the end of the connection.
 */
struct putting {
    struct http *http;
    char name[SET_NAME_MAX + 1];
    struct service *service;
    struct request *rq;
    struct ticket ticket;
    struct task task;
    struct job job;
    bool is_out;   /* a task or a job is at work */
    bool is_whole; /* the body has arrived */
    bool is_over;  /* it has failed: */
    enum status rc;
    struct problem why;

    struct upload *upload;
    struct upload_file_about about;
    bool knows_held_back; /* the client reads `held_back` */
    struct input_reader *reader;
    struct decoding decoding;
    struct block block;
    struct buf waiting;
    struct holding holding; /* HELD */
    struct holding place;   /* one of UPLOADS_MAX */
    struct holding disk; /* bytes of the staging file; the job's, while it is at
                            work */

    /* For a set with inline content: content must exist */
    bool is_inline;
    struct buf digests; /* of the block's resources */

    /* For the job, while it is at work */
    uint64_t n_checked;
    struct content_claim *claim; /* later the archive thread's */
    struct upload_file *staging;
    bool is_last;
    enum status job_rc;
    struct problem job_why;

    struct upload_outcome outcome;
};

static void continue_upload(struct putting *p);

/* Called before the answer (client_limits.h), when nothing is left on the disk.
 */
static void
give_back(struct putting *p)
{
    holding_end(&p->disk);
    holding_end(&p->holding);
    holding_end(&p->place);
}

static void
putting_free(struct putting *p)
{
    decoding_fini(&p->decoding);
    input_reader_free(p->reader);
    contents_end(p->claim, 0);
    buf_fini(&p->digests);
    block_fini(&p->block);
    buf_fini(&p->waiting);
    give_back(p);
    free(p);
}

/* Failing */

static void
count_rejected(unsigned status)
{
    metrics_add_label(METRIC_UPLOADS_REJECTED, metrics_code(status), 1);
}

static void
discard_work(struct job *job)
{
    struct putting *p = list_entry(job, struct putting, job);

    upload_file_discard(p->staging);
    p->staging = NULL;
}

static void
discard_done(struct job *job)
{
    struct putting *p = list_entry(job, struct putting, job);
    struct request *rq = p->rq;

    uploads_give_up(archiver_uploads(p->http->archiver), p->upload);
    give_back(p);
    if (rq) {
        request_set_user(rq, NULL);
        request_resume(rq); /* drains the rest of the body */
        count_rejected(response_status_of(p->rc));
        answers_failure(rq, p->rc, &p->why);
    }
    putting_free(p);
}

/* Ends it. No task or job is at work. */
static void
discard_upload(struct putting *p)
{
    p->is_out = true;
    p->job.work = discard_work;
    p->job.done = discard_done;
    service_work(p->service, &p->job);
}

/* Refuses it; waits for a task or a job at work. */
static void
refuse_upload(struct putting *p, enum status rc, const struct problem *why)
{
    p->is_over = true;
    p->rc = rc;
    p->why = *why;
    if (!p->is_out)
        discard_upload(p);
}

/* The archive's answer */

static void
add_counts(struct buf *to, const char *set, const struct upload_outcome *o)
{
    const struct resource_diff_counts *c = &o->counts;
    char position[POSITION_MAX] = "";

    if (o->epoch[0])
        position_write(position, o->epoch, o->last ? o->last : o->head);
    BUF_ADD(to, "\"set\":");
    json_text(to, slice_of(set));
    buf_add_format(to,
                   ",\"created\":%" PRIu64 ",\"updated\":%" PRIu64
                   ",\"deleted\":%" PRIu64 ",\"unchanged\":%" PRIu64
                   ",\"newer\":%" PRIu64 ",\"held_back\":%" PRIu64
                   ",\"resources\":%" PRIu64,
                   c->created, c->updated, c->deleted, c->unchanged, c->newer,
                   c->held_back, o->resources);
    if (o->last)
        buf_add_format(to, ",\"first\":%" PRIu64 ",\"last\":%" PRIu64, o->first,
                       o->last);
    else
        BUF_ADD(to, ",\"first\":null,\"last\":null");
    if (position[0])
        buf_add_format(to, ",\"position\":\"%s\"", position);
    else
        BUF_ADD(to, ",\"position\":null");
}

static void
answer_counts(struct request *rq, const char *set,
              const struct upload_outcome *o)
{
    struct buf text;

    buf_init(&text, 4096);
    BUF_ADD(&text, "{");
    add_counts(&text, set, o);
    BUF_ADD(&text, "}\n");
    answers_buf(rq, 200, "application/json", NULL, &text);
}

/* Answers 409 to a client that does not know that deletions may be held back:
 * it must not take the set for equal to its list. Waiting does not help, so
 * there is no Retry-After. */
static void
answer_held_back(struct request *rq, const struct putting *p)
{
    const struct upload_outcome *o = &p->outcome;
    struct problem why = {""};
    struct response r;
    struct buf members;
    char excess[64];

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
    buf_init(&members, 4096);
    BUF_ADD(&members, ",");
    add_counts(&members, p->name, o);
    BUF_ADD(&members, "\0");
    count_rejected(409);
    response_init(&r, 409, NULL);
    response_answer_problem(rq, &r, &why, members.data);
    buf_fini(&members);
}

static void
answer_failed(struct request *rq, const struct upload_outcome *o)
{
    count_rejected(response_status_of(o->status));
    answers_failure(rq, o->status, &o->why);
}

static void
on_answered(struct task *task)
{
    struct putting *p = list_entry(task, struct putting, task);
    const struct upload_outcome *o = &p->outcome;
    struct request *rq = ticket_request(p->ticket);

    give_back(p);
    if (rq) {
        request_set_user(rq, NULL);
        if (o->status)
            answer_failed(rq, o);
        else if (o->counts.held_back && !p->knows_held_back)
            answer_held_back(rq, p);
        else
            answer_counts(rq, p->name, o);
    }
    putting_free(p);
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
    service_post(p->service, &p->task);
}

/* Hands it to the archive thread: it is complete and on the disk. The archive
 * thread owns it now. */
static void
hand_over(struct putting *p)
{
    if (p->rq) {
        p->ticket = request_ticket(p->rq);
        request_set_user(p->rq, NULL);
    }
    p->task.run = on_answered;
    uploads_hand_over(archiver_uploads(p->http->archiver), p->upload, on_done,
                      p);
}

/* Writing */

static enum status
check_content(struct putting *p, struct problem *why)
{
    const struct content_block block = {
        .set_name = slice_of(p->name),
        .resources = &p->block,
        .digests = (struct digest *)(void *)p->digests.data,
        .first = p->n_checked + 1,
    };
    enum status rc = content_check_resources(
        p->http->registry, archiver_contents(p->http->archiver), &block,
        &p->claim, why);

    p->n_checked += p->block.n;
    return rc;
}

static enum status
stage_block(struct putting *p, struct problem *why)
{
    struct contents *contents = archiver_contents(p->http->archiver);
    enum status rc = p->is_inline ? check_content(p, why) : STATUS_OK;

    if (!rc)
        rc = contents_hold(contents, &p->disk, upload_file_size(&p->block), 0,
                           why);
    if (!rc && !p->staging)
        rc = upload_file_begin(&p->staging,
                               uploads_dir(archiver_uploads(p->http->archiver)),
                               p->name, why);
    if (!rc)
        rc = upload_file_add(p->staging, &p->block, why);
    if (!rc && p->is_last && p->claim)
        rc = contents_sync(p->claim, why);
    if (!rc && p->is_last) {
        rc = upload_file_finish(p->staging, &p->about, why);
        if (!rc)
            p->staging = NULL;
    }
    return rc;
}

static void
write_work(struct job *job)
{
    struct putting *p = list_entry(job, struct putting, job);

    p->job_rc = stage_block(p, &p->job_why);
}

static void
write_done(struct job *job)
{
    struct putting *p = list_entry(job, struct putting, job);

    p->is_out = false;
    if (!p->job_rc && p->is_last) {
        hand_over(p);
    } else if (p->is_over) {
        discard_upload(p);
    } else if (p->job_rc) {
        refuse_upload(p, p->job_rc, &p->job_why);
    } else {
        block_clear(&p->block);
        buf_clear(&p->digests);
        continue_upload(p);
    }
}

static void
write_block(struct putting *p)
{
    p->is_out = true;
    p->job.work = write_work;
    p->job.done = write_done;
    request_pause(p->rq);
    service_work(p->service, &p->job);
}

/* Reading */

static enum status
on_change(const struct change *change, void *user, struct problem *why)
{
    struct putting *p = user;
    struct digest digest;
    enum status rc = STATUS_OK;

    if (p->is_inline)
        rc = content_check_digest(slice_of(p->name), change, &digest, why);
    if (rc)
        return rc;
    if (p->is_inline)
        buf_add(&p->digests, &digest, sizeof(digest));
    return p->digests.failed ? problem_memory(why)
                             : block_add(&p->block, change, why);
}

static void
on_behind(struct task *task)
{
    struct putting *p = list_entry(task, struct putting, task);
    struct problem why = {""};
    enum status rc;

    p->is_out = false;
    if (p->is_over) {
        discard_upload(p);
        return;
    }
    rc = decoding_catch_up(&p->decoding, &why);
    if (rc)
        refuse_upload(p, rc, &why);
    else
        continue_upload(p);
}

/* Does the next step, unless a task or a job is at work. */
static void
continue_upload(struct putting *p)
{
    struct problem why = {""};
    enum status rc = STATUS_OK;

    if (p->is_out)
        return;
    if (p->waiting.failed) {
        rc = problem_memory(&why);
    } else if (p->block.bytes.size < BLOCK_BYTES && p->waiting.size > 0) {
        rc = decoding_feed(&p->decoding, buf_slice(&p->waiting), &why);
        buf_clear(&p->waiting);
    }
    if (rc) {
        refuse_upload(p, rc, &why);
    } else if (p->block.bytes.size >= BLOCK_BYTES) {
        write_block(p);
    } else if (decoding_is_behind(&p->decoding)) {
        p->is_out = true;
        p->task.run = on_behind;
        request_pause(p->rq);
        service_post(p->service, &p->task);
    } else if (!p->is_whole) {
        request_resume(p->rq);
    } else {
        rc = decoding_end(&p->decoding, &why);
        p->is_last = true;
        if (rc)
            refuse_upload(p, rc, &why);
        else
            write_block(p);
    }
}

static void
on_data(struct request *rq, struct slice bytes)
{
    struct putting *p = request_user(rq);
    struct problem why = {""};
    enum status rc;

    if (p->is_over)
        return;
    if (p->is_out) {
        buf_add_slice(&p->waiting, bytes);
        return;
    }
    rc = decoding_feed(&p->decoding, bytes, &why);
    if (rc)
        refuse_upload(p, rc, &why);
    else
        continue_upload(p);
}

static void
on_end(struct request *rq)
{
    struct putting *p = request_user(rq);

    p->is_whole = true;
    if (!p->is_over)
        continue_upload(p);
}

static void
on_gone(struct request *rq)
{
    struct putting *p = request_user(rq);

    if (!p)
        return; /* the archive owns it */
    p->rq = NULL;
    p->is_over = true;
    if (!p->is_out)
        discard_upload(p);
}

static void
on_broken(struct request *rq, enum status rc, const struct problem *why)
{
    struct putting *p = request_user(rq);

    if (!p->is_over)
        refuse_upload(p, rc, why);
}

static const struct request_handlers handlers = {
    .on_data = on_data,
    .on_end = on_end,
    .on_gone = on_gone,
    .on_broken = on_broken,
};

/* The request */

/* Reads a number; *is_there (may be NULL): it is given. */
static enum status
read_number(struct request *rq, const char *name, uint64_t max,
            uint64_t *number, bool *is_there, struct problem *why)
{
    struct slice value;
    bool is_given = request_parameter(rq, name, &value);

    if (is_there)
        *is_there = is_given;
    if (!is_given || (number_read(value, number) && *number <= max))
        return STATUS_OK;
    return problem(why, STATUS_MALFORMED,
                   "%s: not a number from 0 to %" PRIu64 ": \"%s\"", name, max,
                   problem_quote(value).text);
}

/* Reads how many resources the upload may delete. */
static enum status
read_consent(struct putting *p, struct request *rq, struct problem *why)
{
    uint64_t percent = UPLOADS_MAX_DELETE;
    enum status rc = read_number(rq, "max-delete", 100, &percent, NULL, why);

    p->about.max_delete = (unsigned)percent;
    if (!rc)
        rc = read_number(rq, "accept-deletions", COUNT_MAX, &p->about.accepted,
                         &p->knows_held_back, why);
    return rc ? rc
              : read_number(rq, "left-out", COUNT_MAX, &p->about.left_out, NULL,
                            why);
}

static enum status
make_reader(struct putting *p, struct request *rq, struct problem *why)
{
    struct slice type = {NULL, 0};
    const struct format *format;

    request_header(rq, "content-type", &type);
    format = format_of(type);
    if (!format || !format_is_for_resources(format))
        return problem(why, STATUS_UNSUPPORTED,
                       "resources are read as %s in UTF-8, not as \"%s\"",
                       formats_offered_for_resources(),
                       problem_quote(type).text);
    p->reader =
        input_reader_new(format, INPUT_RESOURCES, SIZE_MAX, on_change, p);
    if (!p->reader)
        return problem_memory(why);
    decoding_init(&p->decoding, p->reader);
    return STATUS_OK;
}

static enum status
reserve_places(struct putting *p, struct request *rq, struct problem *why)
{
    struct clients *clients = registry_clients(p->http->registry);
    struct client *client = request_client(rq);
    struct log_health health;
    enum status rc;

    log_health(registry_log(p->http->registry), &health);
    if (!health.has_room)
        return problem(why, STATUS_BUSY, "the disk is nearly full");
    holding_init(&p->holding, clients, client, CLIENT_POSTS);
    holding_init(&p->place, clients, client, CLIENT_UPLOADS);
    holding_init(&p->disk, clients, client, CLIENT_DISK);
    rc = holding_add(&p->holding, HELD, why);
    return rc ? rc : holding_add(&p->place, 1, why);
}

static enum status
begin_upload(struct putting *p, struct request *rq, struct slice name,
             uint64_t max, struct problem *why)
{
    struct registry *registry = p->http->registry;
    struct slice coding;
    struct head head;
    enum status rc = read_consent(p, rq, why);

    memcpy(p->name, name.data, name.size);
    if (!rc)
        rc = make_reader(p, rq, why);
    if (!rc && request_header(rq, "content-encoding", &coding))
        rc = decoding_decode(&p->decoding, coding, max, why);
    if (!rc)
        rc = reserve_places(p, rq, why);
    if (!rc)
        rc = uploads_begin(archiver_uploads(p->http->archiver), name,
                           request_client(rq), request_authority(rq),
                           &p->upload, why);
    p->is_inline = registry_content(registry, name) == CONTENT_INLINE;
    /* Changes that others post from now on are newer. */
    if (!rc && registry_find(registry, name, &head)) {
        memcpy(p->about.epoch, head.epoch, sizeof(head.epoch));
        p->about.after = head.last;
    }
    return rc;
}

void
handle_resources_put(struct http *http, struct request *rq,
                     const struct route_target *target)
{
    struct putting *p = memory_new(1, sizeof(*p));
    struct problem why = {""};
    enum status rc;

    p->http = http;
    p->service = request_service(rq);
    p->rq = rq;
    block_init(&p->block, BLOCK_MAX);
    buf_init(&p->digests, BLOCK_MAX);
    buf_init(&p->waiting, WAITING_MAX);
    rc = begin_upload(p, rq, target->name, target->body_max, &why);
    if (rc) {
        putting_free(p);
        count_rejected(response_status_of(rc));
        answers_failure(rq, rc, &why);
        return;
    }
    request_set_user(rq, p);
    request_receive(rq, &handlers, target->body_max);
}
