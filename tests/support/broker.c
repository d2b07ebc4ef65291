#include "tests/support/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PROGRAM BIN_DIR "/tidingsd"

/* How much of a log is printed: its end. */
#define LOG_SHOWN 20000L

/* Standard error of all brokers of this process */

/* The folder of the logs; "": none was needed so far. */
static char log_folder[128];
static int n_logs;

static void
print_log(const char *path)
{
    char text[LOG_SHOWN + 1];
    FILE *file = fopen(path, "re");
    size_t size;

    if (!file)
        return;
    if (fseek(file, -LOG_SHOWN, SEEK_END))
        rewind(file); /* it is shorter */
    size = fread(text, 1, LOG_SHOWN, file);
    text[size] = '\0';
    fclose(file);
    fprintf(stderr, "--- standard error of broker %s\n%s", path, text);
}

static void
end_logs(int status, void *unused)
{
    char path[300];

    (void)unused;
    for (int i = 0; i < n_logs; i++) {
        snprintf(path, sizeof(path), "%s/%d", log_folder, i);
        if (status)
            print_log(path);
        unlink(path);
    }
    rmdir(log_folder);
}

static void
name_log(char *path, size_t size)
{
    const char *above = getenv("TMPDIR");

    if (!log_folder[0]) {
        snprintf(log_folder, sizeof(log_folder), "%s/tidings-logs-XXXXXX",
                 above ? above : "/tmp");
        assert_non_null(mkdtemp(log_folder));
        assert_int_equal(on_exit(end_logs, NULL), 0);
    }
    snprintf(path, size, "%s/%d", log_folder, n_logs++);
}

/* Processes */

/* In the child: becomes the program. `out` and `err` are its output. */
static void
become(const char *const *arguments, int out, int err, pid_t parent)
{
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(125);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(arguments[0], (char **)arguments);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", arguments[0],
            strerror(errno));
    _exit(127);
}

static int64_t
now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads what comes next on `fd`; 0 at its end, -1 when it is `end_ms`. */
static ssize_t
read_until(int fd, char *to, size_t size, int64_t end_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int64_t left_ms = end_ms - now_ms();

    if (left_ms < 0 || poll(&poll_fd, 1, (int)left_ms) <= 0)
        return -1;
    return read(fd, to, size);
}

static int
status_of(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int
broker_wait(struct broker *b)
{
    int64_t end_ms = now_ms() + BROKER_WAIT_MS;
    char unread[256];
    ssize_t n;
    int status;

    /* Standard output is open until the process ends. */
    while ((n = read_until(b->out, unread, sizeof(unread), end_ms)) > 0)
        ;
    if (n < 0)
        kill(b->pid, SIGABRT); /* leaves a core, where that is allowed */
    status = status_of(b->pid);
    close(b->out);
    b->pid = 0;
    if (n < 0)
        fail_msg("the broker did not end within %d ms", BROKER_WAIT_MS);
    return status;
}

/* Waits for "tidingsd: ready at http://127.0.0.1:40123/". */
static void
wait_until_ready(struct broker *b)
{
    static const char ready[] = "tidingsd: ready at ";
    int64_t end_ms = now_ms() + BROKER_WAIT_MS;
    char line[256] = "";
    size_t size = 0;
    char *end;

    while (!(end = strchr(line, '\n'))) {
        ssize_t n =
            read_until(b->out, line + size, sizeof(line) - 1 - size, end_ms);

        if (n < 0) {
            broker_kill9(b);
            fail_msg("the broker was not ready within %d ms", BROKER_WAIT_MS);
        }
        if (n == 0)
            fail_msg("the broker ended with %d before it was ready",
                     broker_wait(b));
        size += (size_t)n;
        line[size] = '\0';
    }

    if (strncmp(line, ready, sizeof(ready) - 1) != 0 || end[-1] != '/')
        fail_msg("the broker said \"%s\"", line);
    snprintf(b->url, sizeof(b->url), "%.*s",
             (int)(end - 1 - line) - (int)(sizeof(ready) - 1),
             line + sizeof(ready) - 1);
    b->port = (unsigned)strtoul(strrchr(b->url, ':') + 1, NULL, 10);
    assert_in_range(b->port, 1, 65535);
}

static void
start(struct broker *b)
{
    pid_t parent = getpid();
    int out[2];
    int log;

    assert_int_equal(b->pid, 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    log = open(b->log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
    assert_true(log >= 0);

    b->pid = fork();
    assert_true(b->pid >= 0);
    if (b->pid == 0)
        become(b->arguments, out[1], log, parent);
    close(out[1]);
    close(log);
    b->out = out[0];
    wait_until_ready(b);
}

/* The life of a broker */

/* Puts the arguments of `from` up to NULL behind the first `n`. */
static void
take_arguments(const char **arguments, int n, va_list from)
{
    do {
        assert_true(n < BROKER_ARGUMENTS_MAX);
        arguments[n] = va_arg(from, const char *);
    } while (arguments[n++]);
}

void
broker_open(struct broker *b, ...)
{
    va_list options;

    *b = (struct broker){
        .arguments = {PROGRAM, "--listen", b->listen, "--data", b->data}};
    va_start(options, b);
    take_arguments(b->arguments, 5, options);
    va_end(options);

    tempdir_open(&b->dir);
    name_log(b->log, sizeof(b->log));
    snprintf(b->data, sizeof(b->data), "%s/data", b->dir.path);
    snprintf(b->listen, sizeof(b->listen), "127.0.0.1:0");
    start(b);
    snprintf(b->listen, sizeof(b->listen), "127.0.0.1:%u", b->port);
}

void
broker_close(struct broker *b)
{
    if (b->pid)
        broker_kill9(b);
    tempdir_close(&b->dir);
}

void
broker_stop(struct broker *b)
{
    int status;

    kill(b->pid, SIGTERM);
    status = broker_wait(b);
    if (status)
        fail_msg("the broker ended with %d", status);
}

void
broker_kill9(struct broker *b)
{
    kill(b->pid, SIGKILL);
    status_of(b->pid);
    close(b->out);
    b->pid = 0;
}

void
broker_restart(struct broker *b)
{
    start(b);
}

bool
broker_said(const struct broker *b, const char *part)
{
    FILE *file = fopen(b->log, "re");
    bool is_said = false;
    char line[2048];

    assert_non_null(file);
    while (!is_said && fgets(line, sizeof(line), file))
        is_said = strstr(line, part) != NULL;
    fclose(file);
    return is_said;
}

size_t
broker_rss_kib(const struct broker *b)
{
    char path[64], line[256];
    size_t kib = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)b->pid);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtoul(line + 6, NULL, 10);
    fclose(file);
    assert_true(kib > 0);
    return kib;
}

int
broker_run(char *said, size_t size, ...)
{
    const char *arguments[BROKER_ARGUMENTS_MAX] = {PROGRAM};
    int64_t end_ms = now_ms() + BROKER_WAIT_MS;
    pid_t parent = getpid();
    size_t n_said = 0;
    ssize_t n;
    int out[2];
    int status;
    pid_t pid;
    va_list options;

    va_start(options, size);
    take_arguments(arguments, 1, options);
    va_end(options);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        become(arguments, out[1], out[1], parent);
    close(out[1]);

    do {
        char rest[256]; /* what has no room is read all the same */
        bool has_room = n_said + 1 < size;

        n = read_until(out[0], has_room ? said + n_said : rest,
                       has_room ? size - 1 - n_said : sizeof(rest), end_ms);
        if (n > 0 && has_room)
            n_said += (size_t)n;
    } while (n > 0);
    said[n_said] = '\0';
    if (n < 0)
        kill(pid, SIGKILL);
    close(out[0]);
    status = status_of(pid);
    if (n < 0)
        fail_msg("tidingsd did not end within %d ms", BROKER_WAIT_MS);
    return status;
}

/* As a fixture */

int
broker_setup(void **state)
{
    struct broker *b = malloc(sizeof(*b));

    assert_non_null(b);
    *state = b;
    broker_open(b, NULL);
    return 0;
}

int
broker_teardown(void **state)
{
    struct broker *b = *state;

    if (b->pid)
        broker_stop(b);
    broker_close(b);
    free(b);
    return 0;
}

struct broker *
broker_of(void **state)
{
    return *state;
}
