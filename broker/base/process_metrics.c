#include "broker/base/process_metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "broker/base/metrics.h"

static int64_t
us_of(struct timeval time)
{
    return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

static void
measure_times_and_limits(void)
{
    struct rusage usage;
    struct rlimit files;

    if (!getrusage(RUSAGE_SELF, &usage))
        metrics_set(METRIC_PROCESS_CPU,
                    us_of(usage.ru_utime) + us_of(usage.ru_stime));
    if (!getrlimit(RLIMIT_NOFILE, &files))
        metrics_set(METRIC_PROCESS_FDS_MAX, (int64_t)files.rlim_cur);
}

/* /proc/self/statm: "VIRTUAL RESIDENT ...", in pages. */
static void
measure_memory(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    int64_t page = sysconf(_SC_PAGESIZE), virtual_pages, resident_pages;

    if (!file)
        return;
    if (fscanf(file, "%" SCNd64 " %" SCNd64, &virtual_pages, &resident_pages) ==
        2) {
        metrics_set(METRIC_PROCESS_VIRTUAL, virtual_pages * page);
        metrics_set(METRIC_PROCESS_RESIDENT, resident_pages * page);
    }
    fclose(file);
}

static void
measure_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int64_t n = 0;

    if (!dir)
        return;
    while (readdir(dir))
        n++;
    closedir(dir);
    metrics_set(METRIC_PROCESS_FDS, n - 3); /* ".", ".." and this one */
}

/* The start of the machine, in seconds since 1970; 0: unknown. */
static int64_t
boot_seconds(void)
{
    FILE *file = fopen("/proc/stat", "re");
    char line[512];
    int64_t seconds = 0;

    if (!file)
        return 0;
    while (!seconds && fgets(line, sizeof(line), file))
        if (sscanf(line, "btime %" SCNd64, &seconds) != 1)
            seconds = 0;
    fclose(file);
    return seconds;
}

/* /proc/self/stat: "PID (NAME) S ...", the start in ticks since boot being the
 * 22nd word; the name may have blanks and parentheses in it. */
static void
measure_start(void)
{
    FILE *file = fopen("/proc/self/stat", "re");
    int64_t ticks = 0, boot = boot_seconds(), hertz = sysconf(_SC_CLK_TCK);
    char text[1024] = "";
    char *at;

    if (!file)
        return;
    if (fgets(text, sizeof(text), file) && (at = strrchr(text, ')')) &&
        sscanf(at + 1,
               "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%*s %*s %*s %*s %" SCNd64,
               &ticks) == 1 &&
        boot)
        metrics_set(METRIC_PROCESS_START,
                    boot * 1000000 + ticks * 1000000 / hertz);
    fclose(file);
}

void
process_measure(void)
{
    measure_times_and_limits();
    measure_memory();
    measure_descriptors();
    measure_start();
}
