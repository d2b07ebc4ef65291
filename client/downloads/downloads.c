/*
 * downloads.c - downloads many resources into files at a time.
 *
 *              +--> waits (host_queues.h) --> runs -----> over --> on_done
 *     add --> place       ^   ^                |
 *              ^          |   +-- again -------+
 *              +-- next link ------------------+
 *
 * A turn of the loop of its own calls on_done, so that downloads_add and
 * downloads call back nobody.
 */
#include "client/downloads/downloads.h"

#include "base/clock.h"
#include "client/downloads/host_queues.h"
#include "client/dumps/download.h"

/* One want, with its links in the order of the attempts */

struct download_job_link {
    char *url;
    char *hash;      /* normalised; "": none */
    uint64_t length; /* or LENGTH_NONE */
};

struct download_job {
    struct queued_job queued;
    struct downloads *downloads;
    struct list node; /* among all */
    struct list over; /* among those for on_done */

    uint64_t id;
    char *file;
    char *encoding;
    struct download_job_link links[1 + DOWNLOADS_DUPLICATES_MAX];
    unsigned n_links;
    unsigned loc; /* the place of `loc` among them */

    unsigned at;               /* the current link */
    unsigned n_attempts;       /* of all links */
    bool is_anew;              /* asks this link past all caches */
    uint64_t pause_ms;         /* the next pause, if its host is well */
    struct download *download; /* NULL: none runs */

    struct problem why; /* the failure of `loc`, then the result */
    char last[200];     /* the last failure of another link */
    uint64_t bytes;
    int64_t date_s;
};

/* Frees the job and ends its download. */
static void
download_job_free(struct download_job *job)
{
    list_remove(&job->node);
    list_remove(&job->over);
    download_free(job->download);
    for (unsigned i = 0; i < job->n_links; i++) {
        free(job->links[i].url);
        free(job->links[i].hash);
    }
    free(job->encoding);
    free(job->file);
    free(job);
}

static uint32_t
order_of(const struct downloads_link *link)
{
    return link->pri ? link->pri : 999999; /* */
}

static bool
copy_link(struct download_job_link *to, struct slice url, struct slice hash,
          uint64_t length)
{
    to->url = slice_dup(url);
    to->hash = slice_dup(hash);
    to->length = length;
    return to->url && to->hash;
}

/* Copies the usable duplicates that are guarded, or those that are not, the
 * best first: a digest or a length shows whether a guarded one has the right
 * bytes. */
static bool
copy_duplicates(struct download_job *job, const struct want *want,
                bool are_guarded)
{
    bool is_taken[DOWNLOADS_LOOKED_AT_MAX] = {false};
    bool all_guarded = want->hash.size || want->length != LENGTH_NONE;
    unsigned most = DOWNLOADS_DUPLICATES_MAX + (are_guarded ? 0 : 1); /* loc */
    size_t n = want->n_duplicates < DOWNLOADS_LOOKED_AT_MAX
                   ? want->n_duplicates
                   : DOWNLOADS_LOOKED_AT_MAX;

    while (job->n_links < most) {
        const struct downloads_link *best = NULL;
        size_t which = 0;

        for (size_t i = 0; i < n; i++) {
            const struct downloads_link *link = &want->duplicates[i];

            if (is_taken[i] || !host_name_read(link->href, NULL) ||
                (all_guarded || link->hash.size ||
                 link->length != LENGTH_NONE) != are_guarded ||
                (best && order_of(link) >= order_of(best)))
                continue;
            best = link;
            which = i;
        }
        if (!best)
            return true;
        is_taken[which] = true;
        /* What the duplicate says of its bytes counts where the entry says
         * nothing. */
        if (!copy_link(&job->links[job->n_links++], best->href,
                       want->hash.size ? want->hash : best->hash,
                       want->length != LENGTH_NONE ? want->length
                                                   : best->length))
            return false;
    }
    return true;
}

#define PER_HOST 4
#define TOTAL    32
#define ATTEMPTS 5

/* Milliseconds: the first pause of a host, and the longest it grows to. */
#define PAUSE_MS      1000
#define PAUSE_MOST_MS 60000

struct downloads {
    struct retired retired; /* the first */
    struct td_client *client;
    struct downloads_limits limits;
    int dir_fd;
    downloads_done_fn *on_done;
    void *user;
    struct host_queues hosts;
    struct timer turn;
    struct list all;  /* struct download_job */
    struct list over; /* of these, for on_done, oldest first */
    size_t n_jobs;
    unsigned n_running;
    downloads_again_fn *on_again; /* NULL: nobody asks */
    uint64_t n_came;              /* of downloads that have ended */
};

static void on_turn(void *user);

struct downloads *
downloads_new(struct td_client *client, const struct downloads_limits *limits,
              int dir_fd, downloads_done_fn *on_done,
              downloads_again_fn *on_again, void *user)
{
    struct downloads *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->client = client;
    d->limits = *limits;
    d->limits.per_host = limits->per_host ? limits->per_host : PER_HOST;
    d->limits.total = limits->total ? limits->total : TOTAL;
    d->limits.attempts = limits->attempts ? limits->attempts : ATTEMPTS;
    d->limits.pause_ms = limits->pause_ms ? limits->pause_ms : PAUSE_MS;
    d->dir_fd = dir_fd;
    d->on_done = on_done;
    d->on_again = on_again;
    d->user = user;
    list_init(&d->all);
    list_init(&d->over);
    host_queues_init(&d->hosts, &(struct host_queues_limits){
                                    .per_host = d->limits.per_host,
                                    .failures = d->limits.attempts,
                                    .pause_ms = d->limits.pause_ms,
                                    .pause_most_ms = PAUSE_MOST_MS,
                                    .asked_most_ms = DOWNLOADS_PAUSE_MOST_MS,
                                    .patience_ms = limits->patience_ms,
                                });
    timer_init(&d->turn, client->loop, on_turn, d);
    return d;
}

/* Jobs */

void
downloads_free(struct downloads *downloads)
{
    struct download_job *job;

    if (!downloads)
        return;
    list_until_empty (job, &downloads->all, node)
        download_job_free(job);
    host_queues_fini(&downloads->hosts);
    timer_stop(&downloads->turn);
    handle_loop_retire(downloads->client->loop, &downloads->retired, NULL);
}

static void
set_over(struct download_job *job)
{
    list_append(&job->downloads->over, &job->over);
    timer_start(&job->downloads->turn, 0);
}

/* Leaves the current link for the next one. */
static void
leave_link(struct download_job *job, const struct problem *why)
{
    if (job->at == job->loc)
        job->why = *why;
    else
        snprintf(job->last, sizeof(job->last), "%.199s", why->text);
    job->at++;
    job->is_anew = false;
    job->pause_ms = job->downloads->limits.pause_ms;
    job->queued.due_ms = 0;
}

/* Queues the job at the host of its link, or of the next link whose host is not
 * down; ends it if there is none. */
static void
queue_job(struct download_job *job)
{
    struct downloads *d = job->downloads;
    char text[sizeof(job->why.text)];

    while (job->at < job->n_links) {
        const struct download_job_link *link = &job->links[job->at];
        bool is_url = host_name_read(slice_of(link->url), NULL);
        struct host *host =
            is_url ? host_queues_of(&d->hosts, slice_of(link->url)) : NULL;
        struct problem why = {.text = ""};

        if (!is_url) {
            problem(&why, STATUS_INVALID, "it has no URL of http or https");
        } else if (!host) {
            problem_memory(&why);
        } else if (host_queues_is_down(&d->hosts, host, clock_steady_ms())) {
            problem(&why, STATUS_UNREACHABLE, "%s is down for now",
                    host->name.text);
        } else {
            host_queues_push(host, &job->queued, false);
            timer_start(&d->turn, 0);
            return;
        }
        leave_link(job, &why);
    }
    /* All its links have failed. */
    if (job->n_links > 1) {
        snprintf(text, sizeof(text),
                 "%.700s; %u duplicate%s of it failed as "
                 "well, the last: %s",
                 job->why.text, job->n_links - 1, job->n_links == 2 ? "" : "s",
                 job->last);
        problem(&job->why, job->why.rc, "%s", text);
    }
    set_over(job);
}

/* Returns what the end of a download means for its host. */
static enum host_queues_end
end_of(const struct problem *why)
{
    if (why->rc == STATUS_IO || why->rc == STATUS_MEMORY)
        return HOST_QUEUES_NOTHING;
    if (why->rc != STATUS_UNREACHABLE)
        return HOST_QUEUES_WELL;
    switch (why->http_status) {
    case 0:
    case 408:
    case 429:
    case 502:
    case 503:
    case 504:
        return HOST_QUEUES_FAILED;
    default: /* probably a failure of this resource alone */
        return why->retry_after_s ? HOST_QUEUES_FAILED : HOST_QUEUES_WELL;
    }
}

/* Queues the same link again, at the front. */
static void
try_again(struct download_job *job, bool host_failed)
{
    job->queued.due_ms = 0;
    if (!host_failed && !job->is_anew) {
        job->queued.due_ms = clock_steady_ms() + (int64_t)job->pause_ms;
        job->pause_ms = 2 * job->pause_ms < PAUSE_MOST_MS ? 2 * job->pause_ms
                                                          : PAUSE_MOST_MS;
    }
    host_queues_push(job->queued.host, &job->queued, true);
}

static void
report_again(const struct download_job *job, const struct problem *why)
{
    struct downloads *d = job->downloads;

    if (d->on_again)
        d->on_again(slice_of(job->links[job->loc].url), why, d->user);
}

static void
on_downloaded(const struct problem *why, const struct download_answer *answer,
              void *user)
{
    struct download_job *job = user;
    struct downloads *d = job->downloads;
    struct host *host = job->queued.host;
    enum host_queues_end end = end_of(why);
    unsigned n_later = job->n_links - 1 - job->at; /* each keeps one attempt */
    int64_t now = clock_steady_ms();

    job->download = NULL;
    d->n_running--;
    d->n_came += answer->n_came;
    host_queues_done(&d->hosts, &job->queued, end, why->retry_after_s, now);
    timer_start(&d->turn, 0);
    if (!why->rc) {
        job->bytes = answer->bytes;
        job->date_s = answer->date_s;
        problem_clear(&job->why);
        set_over(job);
    } else if (why->rc == STATUS_IO || why->rc == STATUS_MEMORY) {
        job->why = *why;
        set_over(job);
    } else if (why->rc == STATUS_MALFORMED && answer->is_other &&
               !job->is_anew) {
        job->is_anew = true;
        report_again(job, why);
        try_again(job, false);
    } else if (why->rc == STATUS_UNREACHABLE &&
               job->n_attempts + n_later < d->limits.attempts) {
        report_again(job, why);
        try_again(job, end == HOST_QUEUES_FAILED);
    } else {
        if (job->at + 1 < job->n_links)
            report_again(job, why);
        leave_link(job, why);
        queue_job(job);
    }
    if (!host_queues_is_down(&d->hosts, host, now))
        return;
    list_until_empty (job, &host->waiting, queued.node) {
        host_queues_remove(&job->queued);
        leave_link(job, why);
        queue_job(job);
    }
}

static void
start_job(struct download_job *job)
{
    struct downloads *d = job->downloads;
    const struct download_job_link *link = &job->links[job->at];
    struct download_request request = {
        .url = link->url,
        .dir_fd = d->dir_fd,
        .file = job->file,
        .length = link->length,
        .max_bytes = d->limits.max_bytes,
        .is_of_mirror = true,
        .hash = slice_of(link->hash),
        .encoding = slice_of(job->encoding),
        .is_anew = job->is_anew,
        .keeps_note = true,
    };

    job->n_attempts++;
    job->download = download_start(d->client, &request, on_downloaded, job);
    if (job->download) {
        d->n_running++;
        return;
    }
    host_queues_done(&d->hosts, &job->queued, HOST_QUEUES_NOTHING, 0,
                     clock_steady_ms());
    problem_memory(&job->why);
    set_over(job);
}

static void
on_turn(void *user)
{
    struct downloads *d = user;
    struct queued_job *queued = NULL;
    struct download_job *job;
    int64_t wait;

    list_until_empty (job, &d->over, over) {
        struct downloads_result result = {
            .id = job->id,
            .why = job->why,
            .file = job->file,
            .bytes = job->bytes,
            .date_s = job->date_s,
            .n_attempts = job->n_attempts,
        };

        list_remove(&job->node);
        list_remove(&job->over);
        d->n_jobs--;
        d->on_done(&result, d->user);
        download_job_free(job);
        if (d->retired.is_over)
            return;
    }
    while (d->n_running < d->limits.total &&
           (queued = host_queues_take(&d->hosts, clock_steady_ms())))
        start_job(list_entry(queued, struct download_job, queued));
    if (!list_is_empty(&d->over)) {
        timer_start(&d->turn, 0);
        return;
    }
    wait = d->n_running < d->limits.total
               ? host_queues_wait_ms(&d->hosts, clock_steady_ms())
               : -1;
    if (wait >= 0)
        timer_start(&d->turn, (uint64_t)wait + 1);
}

/* Wants */

size_t
downloads_room(const struct downloads *downloads)
{
    return downloads->n_jobs < DOWNLOADS_ROOM
               ? DOWNLOADS_ROOM - downloads->n_jobs
               : 0;
}

bool
downloads_is_full_for(struct downloads *downloads, struct slice loc)
{
    struct host *host = host_name_read(loc, NULL)
                            ? host_queues_of(&downloads->hosts, loc)
                            : NULL;

    return host && host->n_waiting >= DOWNLOADS_ROOM_HOST;
}

enum status
downloads_add(struct downloads *downloads, const struct want *want)
{
    struct download_job *job;
    bool is_copied;

    if (!downloads_room(downloads) ||
        downloads_is_full_for(downloads, want->loc))
        return STATUS_UNREACHABLE;
    job = calloc(1, sizeof(*job));
    if (!job)
        return STATUS_MEMORY;
    list_init(&job->node);
    list_init(&job->over);
    job->id = want->id;
    job->file = strdup(want->file);
    job->encoding = slice_dup(want->encoding);
    /* mirrors first, where a mirror cannot send the wrong bytes. */
    is_copied = copy_duplicates(job, want, true);
    job->loc = job->n_links++;
    if (!is_copied || !job->file || !job->encoding ||
        !copy_link(&job->links[job->loc], want->loc, want->hash,
                   want->length) ||
        !copy_duplicates(job, want, false)) {
        download_job_free(job);
        return STATUS_MEMORY;
    }
    job->downloads = downloads;
    job->pause_ms = downloads->limits.pause_ms;
    list_prepend(&downloads->all, &job->node);
    downloads->n_jobs++;
    queue_job(job);
    return STATUS_OK;
}

bool
downloads_drop(struct downloads *downloads, uint64_t id)
{
    struct download_job *job = NULL;

    list_walk (job, &downloads->all, node) {
        if (job->id == id)
            break;
    }
    if (!job || job->id != id)
        return false;
    host_queues_remove(&job->queued);
    if (job->download) {
        downloads->n_running--;
        downloads->n_came += download_came(job->download);
        host_queues_done(&downloads->hosts, &job->queued, HOST_QUEUES_NOTHING,
                         0, clock_steady_ms());
    }
    downloads->n_jobs--;
    download_job_free(job);
    timer_start(&downloads->turn, 0);
    return true;
}

uint64_t
downloads_bytes(const struct downloads *downloads)
{
    uint64_t sum = downloads->n_came;

    const struct download_job *job;

    list_walk (job, &downloads->all, node) {
        if (job->download)
            sum += download_came(job->download);
    }
    return sum;
}
