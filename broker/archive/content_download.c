#include "broker/archive/content_download.h"

#include "broker/sets/registry.h"
#include "proto/http/websub.h"

/* Bytes of one file between two looks at the free room. */
#define LOOK_BYTES ((uint64_t)16 << 20)

/* The fetcher reads so much of an answer without content, to reuse its
 * connection. */
#define OTHER_ANSWER_MAX ((size_t)16 * 1024)

struct content_download {
    const struct config *config;
    const char *folder;
    void (*on_over)(void *user);
    void *user;
    struct caller *caller;
    struct list under_way; /* the fetch thread's */

    pthread_mutex_t mutex;
    struct list over;
};

static const char *const headers[] = {"Accept-Encoding: identity", NULL};

static void begin_call(struct fetch *f);

/* The end of a fetch */

/* Ends a fetch. The archive thread may then free it and its file, which may
 * block. */
static void
end_fetch(struct fetch *f, enum fetch_outcome outcome, enum fetch_reason reason)
{
    struct content_download *fetcher = f->fetcher;

    f->outcome = outcome;
    f->reason = reason;
    buf_fini(&f->piece);
    list_remove(&f->at);
    pthread_mutex_lock(&fetcher->mutex);
    list_append(&fetcher->over, &f->at);
    pthread_mutex_unlock(&fetcher->mutex);
    fetcher->on_over(fetcher->user);
}

/* Drops a fetch that the caller no longer has. */
static void
leave_fetch(struct fetch *f)
{
    caller_cancel(f->fetcher->caller, &f->call);
    end_fetch(f, FETCH_DROPPED, FETCH_REFUSED);
}

/* The bytes are not those that were announced. If the server has coded them
 * without being asked, the source may have announced the coded ones (`encoding`
 * of its entry): they are fetched once more, as they are. */
static void
end_different(struct fetch *f)
{
    if (!f->call.is_coded) {
        end_fetch(f, FETCH_HOPELESS, FETCH_DIFFERS);
        return;
    }
    f->keeps_coding = f->is_again = true;
    begin_call(f);
}

static void
end_of_job(struct fetch *f)
{
    if (f->status == STATUS_INVALID)
        end_different(f);
    else
        end_fetch(f, FETCH_NO_ROOM, FETCH_ROOM);
}

/* Jobs: worker pool */

static enum status
begin_fetch(struct fetch *f)
{
    uint64_t room = FETCH_LEAVES_BYTES;
    enum status rc = STATUS_OK;

    if (f->is_again) {
        arriving_abandon(&f->arriving);
        f->arriving = (struct arriving){.folder = NULL};
        f->looked = 0;
        f->is_again = false;
    }
    if (!f->arriving.folder)
        rc = arriving_begin(&f->arriving, f->fetcher->folder, slice_of(f->hash),
                            f->length, &f->why);
    if (rc ||
        (f->arriving.length > 0 && f->arriving.length < f->looked + LOOK_BYTES))
        return rc;
    f->looked = f->arriving.length;
    if (f->length != LENGTH_NONE && f->length > f->arriving.length)
        room += f->length - f->arriving.length;
    return file_free_bytes(f->arriving.fd) >= room
               ? STATUS_OK
               : problem(&f->why, STATUS_BUSY, "the disk is nearly full");
}

static void
write_piece(struct job *job)
{
    struct fetch *f = list_entry(job, struct fetch, job);

    f->status = begin_fetch(f);
    if (!f->status)
        f->status = arriving_add(&f->arriving, buf_slice(&f->piece), &f->why);
}

/* Verifies the file; an empty one, too. */
static void
prove_digest(struct job *job)
{
    struct fetch *f = list_entry(job, struct fetch, job);

    f->status = begin_fetch(f);
    if (!f->status)
        f->status = arriving_end(&f->arriving, &f->why);
}

/* The fetch thread */

/* At the end of the process the call is cut already, which does no harm. */
static void
on_written(struct job *job)
{
    struct fetch *f = list_entry(job, struct fetch, job);

    caller_go(f->fetcher->caller, &f->call, !f->status);
    if (f->status)
        end_of_job(f);
}

static void
on_proven(struct job *job)
{
    struct fetch *f = list_entry(job, struct fetch, job);

    if (f->status)
        end_of_job(f);
    else
        end_fetch(f, FETCH_WHOLE, FETCH_REFUSED);
}

static enum call_turn
on_turn(struct call *call)
{
    struct fetch *f = list_entry(call, struct fetch, call);

    f->has_begun = true;
    if (load_relaxed(&f->is_unwanted))
        leave_fetch(f);
    return CALL_READY;
}

static enum call_turn
on_piece(struct call *call, struct buf *piece)
{
    struct fetch *f = list_entry(call, struct fetch, call);
    struct buf taken = *piece;

    if (load_relaxed(&f->is_unwanted)) {
        leave_fetch(f);
        return CALL_LATER;
    }
    *piece = f->piece;
    f->piece = taken;
    f->job = (struct job){write_piece, on_written};
    caller_work(f->fetcher->caller, &f->job);
    return CALL_LATER;
}

/* True if the answer is from the host of the URL, not from the target of a
 * redirect. */
static bool
is_of_host(const struct call *call)
{
    struct problem why = {""};
    struct buf asked = {.max = WEBSUB_URL_MAX},
               answering = {.max = WEBSUB_URL_MAX};
    bool is;

    if (!call->final_url ||
        websub_check_url(slice_of(call->final_url), "it", &why))
        return true;
    websub_authority(&asked, slice_of(call->url));
    websub_authority(&answering, slice_of(call->final_url));
    is = slice_equal(buf_slice(&asked), buf_slice(&answering));
    buf_fini(&asked);
    buf_fini(&answering);
    return is;
}

static void
fail_fetch(struct fetch *f, enum fetch_reason reason, bool is_in_trouble)
{
    struct fetch *other;

    f->is_of_host = is_in_trouble && is_of_host(&f->call);
    /* The waiting fetches of a host in trouble would only add to that. */
    list_walk (other, &f->fetcher->under_way, at)
        if (f->is_of_host && other != f && other->host == f->host &&
            !other->has_begun)
            leave_fetch(other);
    end_fetch(f, FETCH_FAILED, reason);
}

static void
on_no_answer(struct fetch *f)
{
    static const struct {
        enum fetch_outcome outcome;
        enum fetch_reason reason;
        bool is_in_trouble;
    } ends[] = {
        [CALL_ANSWERED] = {FETCH_FAILED, FETCH_BROKEN, false},
        [CALL_BROKEN] = {FETCH_FAILED, FETCH_BROKEN, false},
        [CALL_REFUSED] = {FETCH_FAILED, FETCH_REFUSED, true},
        [CALL_UNRESOLVED] = {FETCH_FAILED, FETCH_UNREACHABLE, true},
        [CALL_UNCONNECTED] = {FETCH_FAILED, FETCH_UNREACHABLE, true},
        [CALL_TLS] = {FETCH_FAILED, FETCH_UNREACHABLE, true},
        [CALL_TIMEOUT] = {FETCH_FAILED, FETCH_TIMEOUT, false},
        [CALL_MEMORY] = {FETCH_NO_ROOM, FETCH_ROOM, false},
    };
    enum call_failure failure = f->call.failure;

    problem_set(&f->why, "%s", f->call.why);
    /* The address of a name may change; a malformed URL stays malformed. */
    if (failure == CALL_REFUSED && !f->call.final_url)
        end_fetch(f, FETCH_HOPELESS, FETCH_REFUSED);
    else if (ends[failure].outcome == FETCH_FAILED)
        fail_fetch(f, ends[failure].reason, ends[failure].is_in_trouble);
    else
        end_fetch(f, ends[failure].outcome, ends[failure].reason);
}

static void
on_answer(struct call *call)
{
    struct fetch *f = list_entry(call, struct fetch, call);
    unsigned status = call->status;
    bool is_in_trouble = status == 429 || status == 503;

    f->retry_after_us = call->retry_after_us;
    if (call->failure) {
        on_no_answer(f);
    } else if (status != 200) {
        problem_set(&f->why, "the answer is %u", status);
        if (is_in_trouble || status == 408 || status == 425 || status >= 500)
            fail_fetch(f, FETCH_STATUS, is_in_trouble);
        else
            end_fetch(f, FETCH_HOPELESS, FETCH_STATUS);
    } else if (call->is_cut && f->length == call->max_taken) {
        problem_set(&f->why,
                    "it is longer than the %" PRIu64
                    " bytes that were announced",
                    f->length);
        end_different(f);
    } else if (call->is_cut) {
        problem_set(&f->why,
                    "it has more than %" PRIu64 " bytes (--max-content)",
                    call->max_taken);
        end_fetch(f, FETCH_HOPELESS, FETCH_TOO_LARGE);
    } else {
        f->job = (struct job){prove_digest, on_proven};
        caller_work(f->fetcher->caller, &f->job);
    }
}

static void
begin_call(struct fetch *f)
{
    const struct config *config = f->fetcher->config;

    f->call = (struct call){
        .method = CALL_GET,
        .url = f->url,
        .timeout_us = config->fetch_timeout_us,
        .stall_us = config->fetch_stall_us,
        .max_answer = OTHER_ANSWER_MAX,
        .max_redirects = FETCH_REDIRECTS,
        .undoes_coding = !f->keeps_coding,
        .owner = f->owner,
        .is_suspect = f->is_suspect,
        .prepare = on_turn,
        .done = on_answer,
        .headers = f->keeps_coding ? headers : NULL,
        .take = on_piece,
        .max_taken =
            f->length < config->max_content ? f->length : config->max_content,
    };
    caller_start(f->fetcher->caller, &f->call);
}

static void
on_start(struct task *task)
{
    struct fetch *f = list_entry(task, struct fetch, task);

    list_append(&f->fetcher->under_way, &f->at);
    begin_call(f);
}

/* The archive thread */

struct fetch *
fetch_new(struct slice url, struct slice hash, uint64_t length)
{
    struct fetch *f = memory_new(1, sizeof(*f));

    f->url = slice_dup(url);
    f->hash = slice_dup(hash);
    f->length = length;
    atomic_init(&f->is_unwanted, false);
    list_init(&f->node);
    list_init(&f->at);
    f->task.run = on_start;
    buf_init(&f->piece, CALL_PIECE_MAX);
    return f;
}

void
fetch_free(struct fetch *f)
{
    if (!f)
        return;
    arriving_abandon(&f->arriving);
    buf_fini(&f->piece);
    list_remove(&f->node);
    free(f->url);
    free(f->hash);
    free(f);
}

void
content_download_start(struct content_download *fetcher, struct fetch *f)
{
    f->fetcher = fetcher;
    caller_post(fetcher->caller, &f->task);
}

struct fetch *
content_download_next(struct content_download *fetcher)
{
    struct fetch *f;

    pthread_mutex_lock(&fetcher->mutex);
    f = list_take(&fetcher->over, offsetof(struct fetch, at));
    pthread_mutex_unlock(&fetcher->mutex);
    return f;
}

/* Life */

enum status
content_download_open(struct content_download **fetcher,
                      const struct config *config,
                      const struct networks *allowed, const char *folder,
                      void (*on_over)(void *user), void *user,
                      struct problem *why)
{
    struct caller_options calls = {
        .name = "fetch",
        .allowed = allowed,
        .connections = (unsigned)config->fetch_connections,
        .host_connections = (unsigned)config->fetch_host_connections,
    };
    struct content_download *f = memory_new(1, sizeof(*f));
    enum status rc;

    f->config = config;
    f->folder = folder;
    f->on_over = on_over;
    f->user = user;
    list_init(&f->under_way);
    list_init(&f->over);
    pthread_mutex_init(&f->mutex, NULL);
    rc = caller_open(&f->caller, &calls, why);
    if (rc) {
        pthread_mutex_destroy(&f->mutex);
        free(f);
        return rc;
    }
    *fetcher = f;
    return STATUS_OK;
}

static void
free_all(struct list *fetches)
{
    struct fetch *fetch;

    list_drain (fetch, fetches, at)
        fetch_free(fetch);
}

/* All started tasks have run: each fetch is under way, or over. */
void
content_download_close(struct content_download *f)
{
    if (!f)
        return;
    caller_stop(f->caller);
    free_all(&f->under_way);
    free_all(&f->over);
    caller_close(f->caller);
    pthread_mutex_destroy(&f->mutex);
    free(f);
}
