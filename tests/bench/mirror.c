/*
 * mirror.c - how fast a mirror fetches many small files.
 *
 *     bench_mirror [OPTION]... -- COMMAND [ARGUMENT]...
 *
 * Serves a source (source.h) and runs the command, which fetches all of it:
 * "@source" in an argument becomes the URL of the source, "@urls" the name of a
 * file with the URLs of all its files, a line each, for those who know no
 * source. Prints one line of figures; README.md says what they mean.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/options.h"
#include "tests/bench/source.h"
#include "tests/bench/usage.h"

#define LOOK_US 20000

struct settings {
    struct common common; /* server_core is the source's */
    struct source_options source;
};

static const char usage_text[] =
    "usage: bench_mirror [OPTION]... -- COMMAND [ARGUMENT]...\n"
    "\n"
    "  --files N         resources (20000)\n"
    "  --bytes N         of each (1000)\n"
    "  --directory N     files of a directory (500)\n"
    "  --no-hash         the list tells no digest and no length\n"
    "  --server-core N   the source's core, -1: any (0)\n"
    "  --own-core N      the command's core, -1: any (1)\n"
    "  --label TEXT      stands before the figures\n"
    "\n"
    "In an ARGUMENT @source is the URL of the source, @urls a file with those\n"
    "of all files.\n";

static void
parse(struct settings *s, int argc, char **argv)
{
    bool has_no_hashes = false;
    const struct option_row rows[] = {
        {"files", .count = &s->source.files, .min = 1, .max = 1e7},
        {"bytes", .size = &s->source.bytes, .min = 1, .max = 1e6},
        {"directory", .count = &s->source.in_directory, .min = 1, .max = 1e7},
        {"no-hash", .flag = &has_no_hashes},
        {NULL},
    };

    *s = (struct settings){
        .common = {"mirror", .own_core = 1},
        .source = {.files = 20000, .bytes = 1000, .in_directory = 500}};
    options_parse(argc, argv, usage_text, rows, &s->common);
    s->source.has_hashes = !has_no_hashes;
    s->source.core = s->common.server_core;
}

/* Puts the names in that are known now. */
static void
complete(char **arguments, const char *source, const char *urls)
{
    for (; *arguments; arguments++) {
        if (!strcmp(*arguments, "@source"))
            *arguments = bench_memory(strdup(source));
        else if (!strcmp(*arguments, "@urls"))
            *arguments = bench_memory(strdup(urls));
    }
}

static pid_t
start(const struct settings *s)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        bench_fail("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    bench_pin(s->common.own_core);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execvp(s->common.command[0], s->common.command);
    fprintf(stderr, "cannot run %s: %s\n", s->common.command[0],
            strerror(errno));
    _exit(127);
}

/* Waits until the process ends. *baseline_kib: its resident memory when it
 * asked for the first file. */
static int
await(pid_t pid, const struct source_counts *counts, struct rusage *used,
      size_t *baseline_kib)
{
    int status;
    pid_t ended;

    *baseline_kib = 0;
    while (!(ended = wait4(pid, &status, WNOHANG, used))) {
        if (!*baseline_kib && counts->files)
            *baseline_kib = usage_rss_kib(pid);
        usleep(LOOK_US);
    }
    if (ended < 0)
        bench_fail("wait: %s", strerror(errno));
    return status;
}

static double
seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int
main(int argc, char **argv)
{
    struct settings s;
    struct source source;
    struct usage from, to;
    struct rusage used;
    char urls[] = "/tmp/bench-urls-XXXXXX", url[80];
    size_t baseline_kib;
    double took_s, before_s = 0, n;
    int status, fd;

    parse(&s, argc, argv);
    source_start(&source, &s.source);
    fd = mkstemp(urls);
    if (fd < 0)
        bench_fail("cannot write %s: %s", urls, strerror(errno));
    close(fd);
    source_write_urls(&source, &s.source, urls);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/resourcesync.xml",
             source.port);
    complete(s.common.command, url, urls);
    usage_take(&from, getpid());
    status = await(start(&s), source.counts, &used, &baseline_kib);
    usage_take(&to, getpid());
    took_s = (double)(to.at_ns - from.at_ns) / 1e9;
    n = (double)source.counts->files;
    if (n > 0)
        before_s = (double)(source.counts->first_ns - from.at_ns) / 1e9;
    printf("%s files=%.0f exit=%d files_s=%.0f cpu_us=%.1f user_us=%.1f"
           " baseline_s=%.2f baseline_kib=%zu peak_kib=%ld flushes=%.0f"
           " connections=%.0f took_s=%.2f\n",
           s.common.label, n, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
           n / (took_s - before_s),
           (seconds_of(used.ru_utime) + seconds_of(used.ru_stime)) * 1e6 / n,
           seconds_of(used.ru_utime) * 1e6 / n, before_s, baseline_kib,
           used.ru_maxrss, (double)(to.flushes - from.flushes),
           (double)source.counts->connections, took_s);
    source_stop(&source);
    unlink(urls);
    return status != 0;
}
