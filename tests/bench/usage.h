/*
 * usage.h - the resources that a process has used so far, from /proc.
 *
 * CPU is that of all threads, user and system, of the process and of those that
 * it started (PostgreSQL has one for each connection), in ns; each thread's own
 * is kept too, under its name without a number ("net 0" and "net 1" are "net").
 * A thread that ended is forgotten by the kernel: the difference of two usages
 * lacks what it did.
 */
#ifndef TESTS_BENCH_USAGE_H
#define TESTS_BENCH_USAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define USAGE_NAMES_MAX 16

struct usage {
    uint64_t at_ns;  /* when it was taken */
    uint64_t cpu_ns; /* of all threads */

    struct {
        char name[16];
        uint64_t cpu_ns;
    } threads[USAGE_NAMES_MAX];

    unsigned n_threads;
    uint64_t flushes;    /* cache flushes of all disks of the machine */
    uint64_t disk_bytes; /* that the process has written to disks */
};

void usage_take(struct usage *usage, pid_t pid);

/* Returns the bytes that all disks of the machine have written, behind a
 * sync(). What a page cache counts as written (disk_bytes) may be more: with
 * large folios a kernel counts a whole folio for the piece that was written. */
uint64_t usage_sync_disks(void);

/* Prints "cpu_us=" (µs per each of `n`), the same by thread as "NAME_us=",
 * "core_pct=" (share of one core), "flushes_s=" and "disk_bytes=" (per each),
 * for what was used between two usages. */
void usage_print(const struct usage *from, const struct usage *to, uint64_t n);

/* Resident memory, in KiB. */
size_t usage_rss_kib(pid_t pid);

#endif
