#include "tests/test.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/able_time.h"

#define WATCHDOG_LOOK_S 2

/* Constructors run before main, in the order of each file. */
static struct test *tests, **last_test = &tests;
static struct test_group *groups, **last_group = &groups;
static struct test_program *programs;
static const struct test_fixture *fixture; /* the last one set */

/* The results of a child, in memory that it shares with its parent. */
static struct counts {
    unsigned passed;
    unsigned failed;
} * counts;

/* There if the program is built with a sanitizer; `fd` is cast to a pointer. */
extern void __sanitizer_set_report_fd(void *fd) __attribute__((weak));

void
test_set_fixture(const struct test_fixture *new)
{
    fixture = new;
}

void
test_add(struct test *test)
{
    if (!test->setup && !test->teardown && fixture &&
        !strcmp(fixture->file, test->file)) {
        test->setup = fixture->setup;
        test->teardown = fixture->teardown;
    }
    *last_test = test;
    last_test = &test->next;
}

void
test_add_group(struct test_group *group)
{
    *last_group = group;
    last_group = &group->next;
}

void
test_add_program(struct test_program *program)
{
    program->next = programs;
    programs = program;
}

void
test_yield(unsigned n_looks)
{
    /* Other threads are faster than that, other processes may take longer. */
    if (n_looks < 1000)
        sched_yield();
    else
        usleep(1000);
}

uint64_t
test_seed(void)
{
    const char *given = getenv("TIDINGS_SEED");
    uint64_t seed = given                    ? strtoull(given, NULL, 10)
                    : getenv("TIDINGS_SOAK") ? (uint64_t)time(NULL)
                                             : 1;

    print_message("TIDINGS_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

unsigned long
test_size(unsigned long normal, unsigned long soak)
{
    return getenv("TIDINGS_SOAK") ? soak : normal;
}

/* "tests/unit/log/tail_test.c" is called "tail". */
static void
stem_of(const char *file, char stem[64])
{
    const char *base = strrchr(file, '/');
    size_t length;

    base = base ? base + 1 : file;
    length = strcspn(base, ".");
    if (length > 5 && !strncmp(base + length - 5, "_test", 5))
        length -= 5;
    snprintf(stem, 64, "%.*s", (int)length, base);
}

/* True if no filter is given, or one names the file or a part of the test's
 * name: "tail", "tail/wakes", "wakes". */
static bool
is_selected(const struct test *test, char **filters)
{
    char stem[64];

    if (!*filters)
        return true;
    stem_of(test->file, stem);
    for (; *filters; filters++) {
        const char *slash = strchr(*filters, '/');
        size_t length = slash ? (size_t)(slash - *filters) : strlen(*filters);
        bool is_file =
            length == strlen(stem) && !strncmp(*filters, stem, length);

        if (slash ? (is_file || length == 0) && strstr(test->name, slash + 1)
                  : is_file || strstr(test->name, *filters))
            return true;
    }
    return false;
}

/* Runs the selected tests of `file`, in this process. */
static void
run_group(const struct test_group *group, const char *file, char **filters)
{
    struct CMUnitTest *list = NULL;
    size_t n = 0;
    char stem[64], name[160];
    int failed;

    for (const struct test *t = tests; t; t = t->next) {
        if (strcmp(t->file, file) || !is_selected(t, filters))
            continue;
        list = realloc(list, (n + 1) * sizeof(*list));
        if (!list)
            abort();
        list[n++] = (struct CMUnitTest){t->name, t->run, t->setup, t->teardown,
                                        t->initial_state};
    }
    stem_of(file, stem);
    snprintf(name, sizeof(name), "%s%s%s", stem, group->name ? ", " : "",
             group->name ? group->name : "");
    failed =
        _cmocka_run_group_tests(name, list, n, group->setup, group->teardown);
    free(list);
    counts->failed += (unsigned)failed;
    counts->passed += (unsigned)n - (unsigned)failed;
}

static void
on_alarm(int signal)
{
    (void)signal; /* waitpid ends */
}

static unsigned
watchdog_s(void)
{
    const char *said = getenv("TEST_WATCHDOG_S");

    return said ? (unsigned)strtoul(said, NULL, 10) : TEST_WATCHDOG_S;
}

/* Waits for the end of `pid`. True if the watchdog has ended it. */
static bool
await_child(pid_t pid, int *status)
{
    struct able_time spent;
    bool is_late = false;

    able_time_begin(&spent);
    alarm(WATCHDOG_LOOK_S);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
        is_late = able_time_s(&spent) >= watchdog_s();
        if (is_late)
            kill(pid, SIGABRT);
        else
            alarm(WATCHDOG_LOOK_S);
    }
    alarm(0);
    return is_late;
}

/* Sends the reports of a sanitizer to the present standard error: a test may
 * read its own later. Each process calls this for itself, because the sanitizer
 * closes the descriptor in a child. */
static void
keep_reports(void)
{
    if (__sanitizer_set_report_fd)
        __sanitizer_set_report_fd(
            (void *)(intptr_t)fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
}

/* libcmocka handles a fault as a failed test: on a thread that runs no test it
 * calls exit(), and prints nothing of the signal. signal() below keeps it from
 * setting its handler. */
static bool
is_fault(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE ||
           number == SIGILL || number == SIGSYS;
}

void (*signal(int number, void (*handler)(int)))(int)
{
    struct sigaction new = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

    if (is_fault(number))
        return SIG_DFL;
    return sigaction(number, &new, &old) ? SIG_ERR : old.sa_handler;
}

/* Prints a backtrace, and ends the process by the signal. */
static void
tell_fault(int number)
{
    void *frames[64];

    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    raise(number);
}

/* A sanitizer prints a report of its own. */
static void
watch_faults(void)
{
    struct sigaction once = {.sa_handler = tell_fault,
                             .sa_flags = (int)SA_RESETHAND | SA_NODEFER};

    if (__sanitizer_set_report_fd)
        return;
    for (int number = 1; number < SIGRTMIN; number++)
        if (is_fault(number))
            sigaction(number, &once, NULL);
}

/* Runs the tests of `file` in a child: a crash ends only that file, and no
 * state of the process is left for the next one. */
static void
run_in_child(const struct test_group *group, const char *file, char **filters)
{
    const unsigned failed = counts->failed;
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(1);
    }
    if (pid == 0) {
        keep_reports();
        watch_faults();
        run_group(group, file, filters);
        exit(counts->failed > failed);
    }

    if (await_child(pid, &status))
        printf("%s: killed, for it did not end within %u s\n", file,
               watchdog_s());
    else if (WIFSIGNALED(status))
        printf("%s: ended by signal %d\n", file, WTERMSIG(status));
    else if (WEXITSTATUS(status) && counts->failed == failed)
        printf("%s: ended with status %d\n", file, WEXITSTATUS(status));
    if (status && counts->failed == failed)
        counts->failed++;
}

static bool
has_selected(const char *file, char **filters)
{
    for (const struct test *t = tests; t; t = t->next)
        if (!strcmp(t->file, file) && is_selected(t, filters))
            return true;
    return false;
}

static void
run_file(const char *file, char **filters)
{
    static const struct test_group plain;
    bool has_group = false;

    for (const struct test_group *g = groups; g; g = g->next) {
        if (strcmp(g->file, file))
            continue;
        has_group = true;
        run_in_child(g, file, filters);
    }
    if (!has_group)
        run_in_child(&plain, file, filters);
}

/* For tests/run: ctest measures only how long a test takes. */
static void
print_cpu(void)
{
    struct rusage used;

    getrusage(RUSAGE_CHILDREN, &used);
    printf("%.1f s of CPU\n",
           (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
}

static int
list_all(char **filters)
{
    char stem[64];

    for (const struct test *t = tests; t; t = t->next) {
        stem_of(t->file, stem);
        if (is_selected(t, filters))
            printf("%s/%s\n", stem, t->name);
    }
    return 0;
}

int
main(int argc, char **argv)
{
    struct sigaction late = {.sa_handler = on_alarm}; /* waitpid ends */
    const char *file = "";

    for (const struct test_program *p = programs; argc > 1 && p; p = p->next)
        if (!strcmp(argv[1], p->name))
            return p->run(argv);
    if (argc > 1 && !strcmp(argv[1], "--list"))
        return list_all(argv + 2);
    if (argc > 1 && argv[1][0] == '-') {
        fprintf(stderr, "usage: %s [--list] [FILE | FILE/TEST | TEST]...\n",
                argv[0]);
        return 2;
    }

    counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* a killed child has said all */
    sigaction(SIGALRM, &late, NULL);

    /* The tests of a file stand together: one object after the other. */
    for (const struct test *t = tests; t; t = t->next)
        if (strcmp(t->file, file)) {
            file = t->file;
            if (has_selected(file, argv + 1))
                run_file(file, argv + 1);
        }
    print_cpu();
    printf("%u passed, %u failed\n", counts->passed, counts->failed);
    return counts->failed > 0 || counts->passed == 0;
}
