/*
 * faults.h - brokers that meet faults: a disk that fails at the n-th call, a
 * kill there, a disk without room, a clock that is set, a limit of open files.
 *
 *     struct faults f;
 *
 *     faults_open(&f);                      before the broker starts
 *     broker_open(&b, NULL);
 *     faults_arm(&f, PLAN_SYNC, "tidings.db-wal", 0, EIO);
 *     ... its next commit fails ...
 *     faults_close(&f);
 *
 * It is the broker as it is, with a library before it (tests/faults/faults.c).
 * What is armed holds for all brokers that were started between open and close.
 */
#ifndef TESTS_SUPPORT_FAULTS_H
#define TESTS_SUPPORT_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/faults/plan.h"

struct faults {
    struct plan *plan;
    char path[256];
};

void faults_open(struct faults *f);
void faults_close(struct faults *f);

/* `n` calls of these kinds on files with `name` in their path succeed, then all
 * meet `outcome`: an errno or an enum plan_act. */
void faults_arm(struct faults *f, int calls, const char *name, int n,
                int outcome);

/* The same, but only one call meets it. */
void faults_arm_once(struct faults *f, int calls, const char *name, int n,
                     int outcome);

/* All is well again; returns how many calls have met the fault. */
int faults_disarm(struct faults *f);

/* How many have so far; calls before the first that does; and: waits until one
 * has. */
int faults_met(const struct faults *f);
int faults_left(const struct faults *f);
void faults_await(const struct faults *f);

/* Posts by `post`, which gives the status of the answer (0: none), until a call
 * of the archive thread meets the fault. The pauses between are none of the
 * test's concern: they let that thread have its turn, and grow as long as it
 * has none: lists are filed first, so posts would be faster for ever. */
void faults_provoke(const struct faults *f, long (*post)(void *user),
                    void *user);

/* The clock of the day is from now on this far from the truth. */
void faults_set_clock(struct faults *f, int64_t seconds);

/* Disks have so many bytes free from now on, as far as is asked for; 0: as many
 * as they have. */
void faults_set_disk(struct faults *f, int64_t bytes);

/* Brokers that start from now on may have so many files open; 0: as many as the
 * test itself. */
void faults_limit_files(struct faults *f, int64_t n);

#endif
