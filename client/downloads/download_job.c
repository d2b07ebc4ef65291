/*
 * download_job.c - one want, with its links.
 */
#include "client/downloads/download_job.h"

#include <stdlib.h>

void
download_job_free(struct download_job *job)
{
    download_free(job->download);
    for (unsigned i = 0; i < job->n_links; i++) {
        free(job->links[i].url);
        free(job->links[i].hash);
    }
    free(job->encoding);
    free(job->file);
    free(job->url);
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

/* The hash and length of the entry count; those of the link only if the entry
 * has none. */
static bool
copy_duplicate(struct download_job *job, const struct downloads_link *link)
{
    struct download_job_link *to = &job->links[job->n_links++];
    const struct download_job_link *loc = &job->links[0];

    return copy_link(to, link->href,
                     loc->hash[0] ? slice_of(loc->hash) : link->hash,
                     loc->length != LENGTH_NONE ? loc->length : link->length);
}

/* Copies the usable duplicates, the best first. */
static bool
copy_duplicates(struct download_job *job, const struct want *want)
{
    bool is_taken[DOWNLOADS_LOOKED_AT_MAX] = {false};
    size_t n = want->n_duplicates < DOWNLOADS_LOOKED_AT_MAX
                   ? want->n_duplicates
                   : DOWNLOADS_LOOKED_AT_MAX;

    while (job->n_links <= DOWNLOADS_DUPLICATES_MAX) {
        const struct downloads_link *best = NULL;
        size_t which = 0;

        for (size_t i = 0; i < n; i++) {
            const struct downloads_link *link = &want->duplicates[i];

            if (is_taken[i] || !host_queues_is_url(link->href) ||
                (best && order_of(link) >= order_of(best)))
                continue;
            best = link;
            which = i;
        }
        if (!best)
            return true;
        is_taken[which] = true;
        if (!copy_duplicate(job, best))
            return false;
    }
    return true;
}

struct download_job *
download_job_new(const struct want *want)
{
    struct download_job *job = calloc(1, sizeof(*job));

    if (!job)
        return NULL;
    job->id = want->id;
    problem_clear(&job->why);
    job->file = strdup(want->file);
    job->encoding = slice_dup(want->encoding);
    job->n_links = 1;
    if (copy_link(&job->links[0], want->loc, want->hash, want->length) &&
        job->file && job->encoding && copy_duplicates(job, want))
        return job;
    download_job_free(job);
    return NULL;
}
