/*
 * replay.c - fuzz_replay, which gives files to a fuzz target, one by one.
 *
 * A child process runs the files in order. When it dies, the parent names the
 * file that the child was at, and forks another child for the files behind it.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

/* Longest time that a target may take for one input, in seconds. */
#define PATIENCE 60

/* The files to run, and a place that the child shares with its parent. */
struct files {
    char **paths;
    size_t n;
    volatile size_t *at; /* index of the file that is running */
};

static struct fuzz_target *targets;

void
fuzz_add_target(struct fuzz_target *target)
{
    struct fuzz_target **at = &targets;

    while (*at && strcmp((*at)->name, target->name) < 0)
        at = &(*at)->next;
    target->next = *at;
    *at = target;
}

_Noreturn static void
fail(const char *what)
{
    fprintf(stderr, "fuzz_replay: %s: %s\n", what, strerror(errno));
    exit(2);
}

_Noreturn static void
usage(void)
{
    fputs("usage: fuzz_replay TARGET FILE|DIRECTORY...\n\n"
          "Runs the target with each file, and with each file below a "
          "directory.\nPrints the files that make it fail; the last line "
          "counts: \"N passed, N failed\".\n\ntargets:",
          stderr);
    for (const struct fuzz_target *t = targets; t; t = t->next)
        fprintf(stderr, " %s", t->name);
    fputs("\n", stderr);
    exit(2);
}

static void add_path(struct files *files, const char *path);

static int
is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Adds the files of a directory in the order of their names. */
static void
add_directory(struct files *files, const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, is_visible, alphasort);

    if (n < 0)
        fail(path);
    for (int i = 0; i < n; i++) {
        char *name;

        if (asprintf(&name, "%s/%s", path, entries[i]->d_name) < 0)
            fail(path);
        add_path(files, name);
        free(name);
        free(entries[i]);
    }
    free(entries);
}

static void
add_path(struct files *files, const char *path)
{
    struct stat is;

    if (stat(path, &is))
        fail(path);
    if (S_ISDIR(is.st_mode)) {
        add_directory(files, path);
        return;
    }
    files->paths =
        realloc(files->paths, (files->n + 1) * sizeof(*files->paths));
    if (!files->paths || !(files->paths[files->n++] = strdup(path)))
        fail(path);
}

/* Runs the target with a copy of exactly the file's size, so that a sanitizer
 * sees each access behind its end. */
static void
run_file(const struct fuzz_target *target, const char *path)
{
    FILE *file = fopen(path, "r");
    struct buf bytes;
    char piece[4096];
    size_t n;
    char *exact;

    if (!file)
        fail(path);
    buf_init(&bytes, SIZE_MAX);
    while ((n = fread(piece, 1, sizeof(piece), file)) > 0)
        buf_add(&bytes, piece, n);
    if (ferror(file) || bytes.failed)
        fail(path);
    fclose(file);

    exact = malloc(bytes.size);
    if (!exact && bytes.size > 0)
        fail(path);
    if (bytes.size > 0)
        memcpy(exact, bytes.data, bytes.size);
    n = bytes.size;
    buf_fini(&bytes);
    alarm(PATIENCE);
    target->run((struct slice){exact, n});
    alarm(0);
    free(exact);
}

/* Runs the files from `*files->at` on in a child. True if the child ends well;
 * else the target failed at the file `*files->at`. */
static bool
run_files(const struct fuzz_target *target, const struct files *files)
{
    pid_t child;
    int status = 0;

    fflush(NULL);
    child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        for (; *files->at < files->n; ++*files->at)
            run_file(target, files->paths[*files->at]);
        exit(0);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            fail("waitpid");
    if (WIFSIGNALED(status))
        fprintf(stderr, "fuzz_replay: %s: %s\n", target->name,
                strsignal(WTERMSIG(status)));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int
main(int argc, char **argv)
{
    struct files files = {NULL, 0, NULL};
    const struct fuzz_target *target = targets;
    size_t failed = 0;

    while (argc > 1 && target && strcmp(target->name, argv[1]) != 0)
        target = target->next;
    if (argc < 3 || !target)
        usage();
    for (int i = 2; i < argc; i++)
        add_path(&files, argv[i]);

    files.at = mmap(NULL, sizeof(*files.at), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (files.at == MAP_FAILED)
        fail("mmap");
    while (!run_files(target, &files)) {
        failed++;
        if (*files.at == files.n) { /* the child found it when it ended */
            fprintf(stderr, "fuzz_replay: %s: memory leaked\n", target->name);
            break;
        }
        fprintf(stderr, "fuzz_replay: %s failed at %s\n", target->name,
                files.paths[*files.at]);
        ++*files.at;
    }
    printf("%zu passed, %zu failed\n", files.n - failed, failed);

    for (size_t i = 0; i < files.n; i++)
        free(files.paths[i]);
    free(files.paths);
    return failed > 0 || files.n == 0;
}
