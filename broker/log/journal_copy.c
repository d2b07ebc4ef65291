#include "broker/log/journal_copy.h"

#include <string.h>

void
journal_copy_init(struct journal_copy *copy)
{
    memset(copy, 0, sizeof(*copy));
    pthread_mutex_init(&copy->mutex, NULL);
    copy->is_cut_off = true;
    problem_set(&copy->why, "the journal has not answered yet");
}

void
journal_copy_note(struct journal_copy *copy, int64_t us)
{
    pthread_mutex_lock(&copy->mutex);
    if (!copy->is_certain || us > copy->certain_us)
        copy->certain_us = us;
    copy->is_certain = true;
    copy->is_cut_off = false;
    pthread_mutex_unlock(&copy->mutex);
}

void
journal_copy_note_end(struct journal_copy *copy, uint64_t end)
{
    pthread_mutex_lock(&copy->mutex);
    if (end > copy->end)
        copy->end = end;
    pthread_mutex_unlock(&copy->mutex);
}

void
journal_copy_cut_off(struct journal_copy *copy, const struct problem *why)
{
    pthread_mutex_lock(&copy->mutex);
    copy->is_cut_off = true;
    copy->why = *why;
    pthread_mutex_unlock(&copy->mutex);
}

bool
journal_copy_is_certain(struct journal_copy *copy, int64_t us)
{
    bool is;

    pthread_mutex_lock(&copy->mutex);
    is = copy->is_certain && copy->certain_us >= us;
    pthread_mutex_unlock(&copy->mutex);
    return is;
}
