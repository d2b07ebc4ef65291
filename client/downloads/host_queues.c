/*
 * host_queues.c - decides which host is asked next.
 */
#include "client/downloads/host_queues.h"

void
host_queues_init(struct host_queues *hosts,
                 const struct host_queues_limits *limits)
{
    *hosts = (struct host_queues){.limits = *limits};
    list_init(&hosts->all);
}

static void
free_host(struct host_queues *hosts, struct host *host)
{
    hosts->n--;
    list_remove(&host->node);
    free(host);
}

void
host_queues_fini(struct host_queues *hosts)
{
    struct host *host;

    list_until_empty (host, &hosts->all, node)
        free_host(hosts, host);
}

/* With more hosts, one without jobs is forgotten; with more than the second
 * number, one that failed, too. */
#define IDLE_MAX       64
#define REMEMBERED_MAX 4096

struct host *
host_queues_of(struct host_queues *hosts, struct slice url)
{
    struct websub_origin name;
    struct host *host;

    if (!host_name_read(url, &name))
        return NULL;
    list_walk (host, &hosts->all, node)
        if (!strcmp(host->name.text, name.text))
            return host;
    /* Forgets no host: the caller may hold one. */
    host = calloc(1, sizeof(*host));
    if (!host)
        return NULL;
    host->name = name;
    list_init(&host->waiting);
    host->n_places = hosts->limits.per_host;
    host->pause_ms = hosts->limits.pause_ms;
    list_append(&hosts->all, &host->node);
    hosts->n++;
    return host;
}

void
host_queues_push(struct host *host, struct queued_job *job, bool is_first)
{
    job->host = host;
    job->is_queued = true;
    if (is_first)
        list_prepend(&host->waiting, &job->node);
    else
        list_append(&host->waiting, &job->node);
    host->n_waiting++;
}

void
host_queues_remove(struct queued_job *job)
{
    if (!job->is_queued)
        return;
    list_remove(&job->node);
    job->is_queued = false;
    job->host->n_waiting--;
}

struct queued_job *
host_queues_take(struct host_queues *hosts, int64_t now_ms)
{
    struct queued_job *job;
    struct host *host;

    list_walk (host, &hosts->all, node) {
        bool is_free =
            host->n_running < host->n_places && host->until_ms <= now_ms;

        list_walk (job, &host->waiting, node) {
            if (!is_free || job->due_ms > now_ms)
                continue;
            host_queues_remove(job);
            host->n_running++;
            list_put(&hosts->all, &host->node);
            return job;
        }
        if (!host->n_waiting && !host->n_running &&
            hosts->n > (host->n_failures ? REMEMBERED_MAX : IDLE_MAX))
            free_host(hosts, host);
    }
    return NULL;
}

int64_t
host_queues_wait_ms(const struct host_queues *hosts, int64_t now_ms)
{
    int64_t best = -1;
    const struct host *host;
    const struct queued_job *job;

    list_walk (host, &hosts->all, node) {
        if (host->n_running >= host->n_places)
            continue; /* a job must end first */
        list_walk (job, &host->waiting, node) {
            int64_t due =
                job->due_ms > host->until_ms ? job->due_ms : host->until_ms;
            int64_t wait = due > now_ms ? due - now_ms : 0;

            if (best < 0 || wait < best)
                best = wait;
        }
    }
    return best;
}

void
host_queues_done(struct host_queues *hosts, struct queued_job *job,
                 enum host_queues_end end, unsigned retry_after_s,
                 int64_t now_ms)
{
    const struct host_queues_limits *limits = &hosts->limits;
    struct host *host = job->host;
    int64_t asked = (int64_t)retry_after_s * 1000;
    int64_t until;

    host->n_running--;
    if (end == HOST_QUEUES_WELL) {
        host->n_failures = 0;
        host->pause_ms = limits->pause_ms;
        host->n_places = 2 * host->n_places < limits->per_host
                             ? 2 * host->n_places
                             : limits->per_host;
    }
    if (end != HOST_QUEUES_FAILED)
        return;
    if (asked > limits->asked_most_ms)
        asked = limits->asked_most_ms;
    if (limits->patience_ms && asked > limits->patience_ms)
        host->n_failures = limits->failures;
    if (host->until_ms <= now_ms) { /* the first failure of the running jobs */
        host->n_failures++;
        until = now_ms + (asked ? asked : host->pause_ms);
        if (!asked)
            host->pause_ms = host->pause_ms < limits->pause_most_ms / 2
                                 ? 2 * host->pause_ms
                                 : limits->pause_most_ms;
    } else {
        until = now_ms + asked;
    }
    if (until > host->until_ms)
        host->until_ms = until;
    host->n_places = 1;
}

bool
host_queues_is_down(const struct host_queues *hosts, const struct host *host,
                    int64_t now_ms)
{
    return host->n_failures >= hosts->limits.failures &&
           host->until_ms > now_ms;
}
