/*
 * faults.h - programs that meet faults: a disk that fails at the n-th call, or
 * a kill there.
 *
 *     struct faults f;
 *
 *     faults_open(&f);                      before the broker starts
 *     broker_open(&b, NULL);
 *     faults_arm(&f, PLAN_SYNC, "tidings.db-wal", 0, EIO);
 *     ... its next commit fails ...
 *     faults_close(&f);
 *
 * The programs are unchanged; a library is loaded before them
 * (tests/faults/faults.c). An armed fault holds for all programs that were
 * started between open and close.
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

#endif
