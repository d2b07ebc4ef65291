/*
 * replay.c - fuzz_replay, which gives inputs to a fuzz target, one by one:
 * files, and the members of archives.
 *
 * A child process runs the inputs in order. When it dies, the parent names the
 * input that the child was at, and forks another child for those behind it.
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

#include "tests/fuzz/fuzz.h"
#include "tests/support/tar.h"

/* Longest time that a target may take for one input, in seconds. */
#define PATIENCE 60

/* Its bytes are a block of exactly their size, so that a sanitizer sees each
 * access behind their end. */
struct input {
    char *name;
    struct slice bytes;
};

/* What to run, and a place that the child shares with its parent. */
struct inputs {
    struct input *all;
    size_t n;
    const char *archive; /* that is being read */
    volatile size_t *at; /* index of the input that is running */
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
    fputs("usage: fuzz_replay TARGET FILE|ARCHIVE.tar|DIRECTORY...\n\n"
          "Runs the target with each file, with each member of an archive, and "
          "with each file\nbelow a directory. Prints the inputs that make it "
          "fail; the last line counts: \"N\npassed, N failed\".\n\ntargets:",
          stderr);
    for (const struct fuzz_target *t = targets; t; t = t->next)
        fprintf(stderr, " %s", t->name);
    fputs("\n", stderr);
    exit(2);
}

static void add_path(struct inputs *inputs, const char *path);

static int
is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Adds the files of a directory in the order of their names. */
static void
add_directory(struct inputs *inputs, const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, is_visible, alphasort);

    if (n < 0)
        fail(path);
    for (int i = 0; i < n; i++) {
        char *name;

        if (asprintf(&name, "%s/%s", path, entries[i]->d_name) < 0)
            fail(path);
        add_path(inputs, name);
        free(name);
        free(entries[i]);
    }
    free(entries);
}

/* Adds an input, which becomes the owner of `name` and `bytes`. */
static void
add_input(struct inputs *inputs, char *name, struct slice bytes)
{
    inputs->all = realloc(inputs->all, (inputs->n + 1) * sizeof(*inputs->all));
    if (!inputs->all || !name || (bytes.size > 0 && !bytes.data))
        fail("inputs");
    inputs->all[inputs->n++] = (struct input){name, bytes};
}

static void
add_member(void *user, const char *name, struct slice bytes)
{
    struct inputs *inputs = user;
    char *copy = malloc(bytes.size), *whole;

    if (bytes.size > 0 && copy)
        memcpy(copy, bytes.data, bytes.size);
    if (asprintf(&whole, "%s: %s", inputs->archive, name) < 0)
        whole = NULL;
    add_input(inputs, whole, (struct slice){copy, bytes.size});
}

static void
add_path(struct inputs *inputs, const char *path)
{
    struct stat is;
    FILE *file;
    char *bytes;

    if (stat(path, &is))
        fail(path);
    if (S_ISDIR(is.st_mode)) {
        add_directory(inputs, path);
        return;
    }
    if (slice_ends(slice_of(path), ".tar")) {
        inputs->archive = path;
        tar_each(path, add_member, inputs);
        return;
    }
    file = fopen(path, "r");
    bytes = malloc((size_t)is.st_size);
    if (!file ||
        fread(bytes, 1, (size_t)is.st_size, file) != (size_t)is.st_size)
        fail(path);
    fclose(file);
    add_input(inputs, strdup(path), (struct slice){bytes, (size_t)is.st_size});
}

/* Runs the inputs from `*inputs->at` on in a child. True if the child ends
 * well; else the target failed at the input `*inputs->at`. */
static bool
run_inputs(const struct fuzz_target *target, const struct inputs *inputs)
{
    pid_t child;
    int status = 0;

    fflush(NULL);
    child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        for (; *inputs->at < inputs->n; ++*inputs->at) {
            alarm(PATIENCE);
            target->run(inputs->all[*inputs->at].bytes);
            alarm(0);
        }
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
    struct inputs inputs = {.n = 0};
    const struct fuzz_target *target = targets;
    size_t failed = 0;

    while (argc > 1 && target && strcmp(target->name, argv[1]) != 0)
        target = target->next;
    if (argc < 3 || !target)
        usage();
    for (int i = 2; i < argc; i++)
        add_path(&inputs, argv[i]);

    inputs.at = mmap(NULL, sizeof(*inputs.at), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (inputs.at == MAP_FAILED)
        fail("mmap");
    while (!run_inputs(target, &inputs)) {
        failed++;
        if (*inputs.at == inputs.n) { /* the child found it when it ended */
            fprintf(stderr, "fuzz_replay: %s: memory leaked\n", target->name);
            break;
        }
        fprintf(stderr, "fuzz_replay: %s failed at %s\n", target->name,
                inputs.all[*inputs.at].name);
        ++*inputs.at;
    }
    printf("%zu passed, %zu failed\n", inputs.n - failed, failed);

    for (size_t i = 0; i < inputs.n; i++) {
        free(inputs.all[i].name);
        free((char *)inputs.all[i].bytes.data);
    }
    free(inputs.all);
    return failed > 0 || inputs.n == 0;
}
