/*
 * inside.h - the log, as log.c and keeping.c see it.
 */
#ifndef BROKER_LOG_INSIDE_H
#define BROKER_LOG_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "broker/log/batch_cache.h"
#include "broker/log/log.h"
#include "broker/log/log_thread.h"
#include "broker/log/tail.h"

/* Marks of one list: 64 bytes each 128 KiB of at most 50 MB, and some. */
#define MARKS_MAX 65536

struct log {
    struct log_options options;
    char dir[4096];
    int lock;
    struct engine *engine;
    struct tails tails;
    atomic_size_t disk_forms; /* bytes of forms kept by batches from a disk */
    struct batch_cache *cache;
    struct log_thread log_thread;
    atomic_bool is_ending; /* log_ending */

    pthread_mutex_t mutex; /* guards sets */
    struct list sets;

    struct log_set **by_id; /* keeping.c: set_of_id */
    size_t n_by_id;
};

#endif
