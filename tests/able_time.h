/*
 * able_time.h - the time in which a test could run.
 *
 * A limit in seconds of a clock counts how busy the machine is: beside other work
 * a file that needs 9 s of CPU was ended after 900. The kernel says how long some
 * program has waited for a processor, for memory or for a disk
 * (/proc/pressure: PSI); limits of tests leave that time out. A tenth of the time
 * counts in any case, so that every limit ends.
 *
 *     struct able_time spent;
 *
 *     able_time_begin(&spent);
 *     while (able_time_s(&spent) < limit)      a look each few seconds
 *         ...
 *
 * tests/conftest.py counts likewise, for single tests.
 */
#pragma once

#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct able_time {
    double clock_s;   /* of the last look */
    double stalled_s; /* by then, as the kernel has counted it */
    double able_s;    /* so far */
};

/* Seconds in which something has waited for a resource since the machine began;
 * 0 where the kernel does not say. */
static inline double
able_time_stalled_s(void)
{
    static const char *const files[] = {
        "/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"};
    double sum_s = 0;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        FILE *file = fopen(files[i], "re");
        unsigned long long us;

        if (!file)
            continue;
        if (fscanf(file, "some %*s %*s %*s total=%llu", &us) == 1)
            sum_s += (double)us / 1e6;
        fclose(file);
    }
    return sum_s;
}

static inline double
able_time_clock_s(void)
{
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now); /* not that of clock.c */
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline void
able_time_begin(struct able_time *spent)
{
    spent->clock_s = able_time_clock_s();
    spent->stalled_s = able_time_stalled_s();
    spent->able_s = 0;
}

/* Returns the seconds in which the test could run since able_time_begin. */
static inline double
able_time_s(struct able_time *spent)
{
    double clock_s = able_time_clock_s(), stalled_s = able_time_stalled_s();
    double passed_s = clock_s - spent->clock_s;
    double able_s = passed_s - (stalled_s - spent->stalled_s);

    spent->able_s += able_s > passed_s / 10 ? able_s : passed_s / 10;
    spent->clock_s = clock_s;
    spent->stalled_s = stalled_s;
    return spent->able_s;
}
