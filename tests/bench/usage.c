#include "tests/bench/usage.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"

/* Reads the beginning of a file; false: it is not there (any more). */
static bool
read_text(const char *path, char *to, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t n;

    if (!file)
        return false;
    n = fread(to, 1, size - 1, file);
    to[n] = '\0';
    fclose(file);
    return n > 0;
}

/* "net 0\n" becomes "net". */
static void
strip_number(char *name)
{
    size_t n = strcspn(name, "\n");

    while (n > 0 && (isdigit((unsigned char)name[n - 1]) || name[n - 1] == ' '))
        n--;
    name[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if (name[i] == ' ')
            name[i] = '-';
}

static void
add_thread(struct usage *u, const char *name, uint64_t cpu_ns)
{
    unsigned i = 0;

    u->cpu_ns += cpu_ns;
    while (i < u->n_threads && strcmp(u->threads[i].name, name) != 0)
        i++;
    if (i == USAGE_NAMES_MAX)
        return;
    if (i == u->n_threads)
        snprintf(u->threads[u->n_threads++].name, sizeof(u->threads[0].name),
                 "%s", name);
    u->threads[i].cpu_ns += cpu_ns;
}

struct disks {
    uint64_t written; /* bytes */
    uint64_t flushes;
};

/* One line of /proc/diskstats a device: major, minor, name, 17 figures, of
 * which the 7th counts sectors that were written, and the 16th flushes.
 * /sys/block has whole disks only, so no partition counts once more. */
static struct disks
count_disks(void)
{
    FILE *file = fopen("/proc/diskstats", "re");
    unsigned long long sectors, flushes;
    struct disks sum = {0, 0};
    char line[512], name[64], path[80];

    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line,
                   "%*u %*u %63s %*u %*u %*u %*u %*u %*u %llu %*u %*u %*u %*u "
                   "%*u %*u %*u %*u %llu",
                   name, &sectors, &flushes) != 3)
            continue;
        snprintf(path, sizeof(path), "/sys/block/%s", name);
        if (access(path, F_OK))
            continue;
        sum.written += sectors * 512;
        sum.flushes += flushes;
    }
    if (file)
        fclose(file);
    return sum;
}

/* Pages that the process made dirty: a page that is written again before it
 * went to the disk counts once. */
static uint64_t
count_written(pid_t pid)
{
    unsigned long long bytes = 0;
    char path[64], line[128];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "write_bytes: %llu", &bytes) == 1)
            break;
    if (file)
        fclose(file);
    return bytes;
}

static void add_process(struct usage *u, pid_t pid);

/* Adds the processes that a thread has started. */
static void
add_children(struct usage *u, const char *thread)
{
    char path[320], text[16384], *at = text, *end;
    unsigned long child;

    snprintf(path, sizeof(path), "%s/children", thread);
    if (!read_text(path, text, sizeof(text)))
        return;
    while ((child = strtoul(at, &end, 10)) > 0) {
        add_process(u, (pid_t)child);
        at = end;
    }
}

static void
add_process(struct usage *u, pid_t pid)
{
    char thread[288], path[320], name[16], text[128];
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(thread, sizeof(thread), "/proc/%d/task/%s", (int)pid,
                 entry->d_name);
        add_children(u, thread);
        snprintf(path, sizeof(path), "%s/comm", thread);
        if (!read_text(path, name, sizeof(name)))
            continue;
        snprintf(path, sizeof(path), "%s/schedstat", thread);
        if (!read_text(path, text, sizeof(text)))
            continue;
        strip_number(name);
        add_thread(u, name, strtoull(text, NULL, 10));
    }
    if (dir)
        closedir(dir);
    u->disk_bytes += count_written(pid);
}

void
usage_take(struct usage *u, pid_t pid)
{
    memset(u, 0, sizeof(*u));
    add_process(u, pid);
    if (u->n_threads == 0)
        bench_fail("the server has ended");
    u->flushes = count_disks().flushes;
    u->at_ns = bench_now_ns();
}

uint64_t
usage_sync_disks(void)
{
    sync();
    return count_disks().written;
}

static uint64_t
thread_ns(const struct usage *u, const char *name)
{
    for (unsigned i = 0; i < u->n_threads; i++)
        if (strcmp(u->threads[i].name, name) == 0)
            return u->threads[i].cpu_ns;
    return 0;
}

void
usage_print(const struct usage *from, const struct usage *to, uint64_t n)
{
    double each = n ? (double)n * 1000 : 1000;
    double took_ns = (double)(to->at_ns - from->at_ns);
    double cpu_ns = (double)(to->cpu_ns - from->cpu_ns);

    printf(" cpu_us=%.3f core_pct=%.0f flushes_s=%.0f disk_bytes=%.0f",
           cpu_ns / each, 100 * cpu_ns / took_ns,
           (double)(to->flushes - from->flushes) * 1e9 / took_ns,
           (double)(to->disk_bytes - from->disk_bytes) / (n ? (double)n : 1));
    for (unsigned i = 0; i < to->n_threads && to->n_threads > 1; i++) {
        const char *name = to->threads[i].name;
        uint64_t ns = to->threads[i].cpu_ns - thread_ns(from, name);

        printf(" %s_us=%.3f", name, (double)ns / each);
    }
}

size_t
usage_rss_kib(pid_t pid)
{
    char path[64], text[128];
    unsigned long pages = 0;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    if (!read_text(path, text, sizeof(text)) ||
        sscanf(text, "%*u %lu", &pages) != 1)
        bench_fail("the server has ended");
    return pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}
