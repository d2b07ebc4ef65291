#include "tests/bench/bench.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

void
bench_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void *
bench_memory(void *memory)
{
    if (!memory)
        bench_fail("no memory left");
    return memory;
}

uint64_t
bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void
bench_pin(int core)
{
    cpu_set_t cores;

    if (core == NO_CORE)
        return;
    CPU_ZERO(&cores);
    CPU_SET((unsigned)core, &cores);
    if (sched_setaffinity(0, sizeof(cores), &cores))
        fprintf(stderr, "bench: not on core %d: %s\n", core, strerror(errno));
}

void
bench_allow_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

double
bench_number(const char *option, const char *text, double min, double max)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= min && value <= max))
        bench_fail("--%s: \"%s\" is not a number from %g to %g", option, text,
                   min, max);
    return value;
}
