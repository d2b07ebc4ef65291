/*
 * source.h - a ResourceSync source that generates files on request: no disk, no
 * delay, any number of resources.
 *
 *     /resourcesync.xml        the Source Description
 *     /capability.xml
 *     /resources.xml           the Resource List, an index from 50,001 on
 *     /resources/N.xml         its parts, gzip for who takes it
 *     /changes.xml             a Change List without changes
 *     /r/NNN/NNNNNN.txt        the files, some hundred in a directory
 *
 * HTTP/1.1, connections kept, TCP_NODELAY, one thread of a process of its own.
 */
#ifndef TESTS_BENCH_SOURCE_H
#define TESTS_BENCH_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct source_options {
    unsigned files;
    size_t bytes;          /* of a file */
    unsigned in_directory; /* files of a directory */
    bool has_hashes;       /* the list states SHA-256 and length */
    int core;
};

/* Counts requests; shared with the process. */
struct source_counts {
    _Atomic uint64_t files;
    _Atomic uint64_t first_ns; /* when a file was asked for first; 0: not yet */
    _Atomic uint64_t connections;
};

struct source {
    pid_t pid;
    unsigned port;
    struct source_counts *counts;
};

/* Makes the lists, then starts the process. */
void source_start(struct source *source, const struct source_options *options);
void source_stop(struct source *source);

/* Writes the URL of each file into a file, a line each. */
void source_write_urls(const struct source *source,
                       const struct source_options *options, const char *path);

#endif
