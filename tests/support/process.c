#include "tests/support/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"

/* How much of a log is printed: its end. */
#define LOG_SHOWN 20000L

int64_t
process_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Standard error of all servers of this process */

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
    fprintf(stderr, "--- standard error, %s\n%s", path, text);
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

void
process_log(char *path, size_t size)
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

bool
process_said(const char *log, const char *part)
{
    FILE *file = fopen(log, "re");
    char line[2048];
    bool has_said = false;

    assert_non_null(file);
    while (!has_said && fgets(line, sizeof(line), file))
        has_said = strstr(line, part);
    fclose(file);
    return has_said;
}

/* The process */

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

pid_t
process_start(const char *const *arguments, const char *log, int *out)
{
    pid_t parent = getpid();
    int ends[2];
    int err = -1;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    if (log) {
        err = open(log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
        assert_true(err >= 0);
    }

    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        become(arguments, ends[1], log ? err : ends[1], parent);
    close(ends[1]);
    if (log)
        close(err);
    *out = ends[0];
    return pid;
}

ssize_t
process_read(int out, char *to, size_t size, int64_t end_ms)
{
    struct pollfd poll_fd = {.fd = out, .events = POLLIN};
    int64_t left_ms = end_ms - process_now_ms();

    if (left_ms < 0 || poll(&poll_fd, 1, (int)left_ms) <= 0)
        return -1;
    return read(out, to, size);
}

int
process_status(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool
process_thread_sleeps(pid_t thread)
{
    char path[64], text[256] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    return strstr(text, ") S ") != NULL;
}
