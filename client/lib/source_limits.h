/*
 * source_limits.h - bounds for a source: its resources, its bytes, and the free
 * bytes of the disk.
 *
 * Each handle has one room; td_limit sets the limits. Code that writes a
 * source's data asks it before it writes to a file.
 */
#pragma once

#include "client/tidings.h"
#include "proto/problem.h"

struct source_limits {
    struct td_limits limits;

    uint64_t kept;     /* bytes of the files of a mirror, whole ones */
    uint64_t coming;   /* bytes of its files that are not whole yet */
    uint64_t unlooked; /* bytes written since the last look at the disk */
    bool has_looked;

    uint64_t n_packages; /* of dumps, that came whole */
    uint64_t bytes_packages;
};

/* May `n` bytes be written in the directory `dir_fd`? STATUS_IO: they would
 * leave less free than has to stay. The file system is asked once in a MiB. */
enum status source_limits_look(struct source_limits *room, int dir_fd,
                               uint64_t n, struct problem *why);

/* The same for the file or directory `path`, which `why` names; the file system
 * is asked each time. */
enum status source_limits_look_at(const struct source_limits *room,
                                  const char *path, uint64_t n,
                                  struct problem *why);

/* May `n` bytes more come for the mirror? STATUS_IO: it would have too many. */
enum status source_limits_check_total(const struct source_limits *room,
                                      uint64_t n, struct problem *why);

/* May a list, or a mirror, have `n` resources? STATUS_REFUSED. */
enum status source_limits_check_resources(const struct source_limits *room,
                                          uint64_t n, struct problem *why);
