/*
 * isolated SECONDS COMMAND... - runs a test by itself, and leaves nothing of it.
 * isolated --leashed COMMAND... - becomes the command, which is killed when the thread that
 *     started it ends. A test starts thousands of these: linked statically it costs a
 *     fifth of the pages of setpriv(1).
 *
 *     isolated           waits; ctest's child
 *       init             process 1 of the namespaces: collects what ends
 *         COMMAND        and all that it starts
 *
 * The command gets no settings of the user for `tidings`, and namespaces of its own:
 *
 *     network     only loopback: no port that it opens, or finds closed, is another
 *                 test's
 *     IPC         PostgreSQL keeps a segment of System V memory for each directory;
 *                 one that is killed would leave it to the machine
 *     processes   when the command ends, or this program is killed, the kernel ends
 *                 all that it has started
 *     mounts      /dev/shm is its own, and ends with it; where TMPDIR lies elsewhere
 *                 (crash/ needs a real disk), it is a new directory that init removes
 *
 * Where that is not allowed (it takes root), the command runs without namespaces, and
 * leaves what it leaves.
 *
 * SECONDS limits the time in which the command could run (able_time.h): then all is
 * killed, and the status is 124. Else it is the command's, or 128 and the number of
 * the signal that ended it.
 *
 * A program and no script: the shells, `unshare` and `ip` took four times as long
 * (measured: 0.21 s, and 0.05 s beside other tests).
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/able_time.h"

#define STATUS_LATE    124
#define STATUS_NOT_RUN 126
#define SHARED_MEMORY  "/dev/shm"

static int
stop(const char *what)
{
    fprintf(stderr, "tests/isolated: %s: %s\n", what, strerror(errno));
    return STATUS_NOT_RUN;
}

static int
status_of(int waited)
{
    return WIFSIGNALED(waited) ? 128 + WTERMSIG(waited) : WEXITSTATUS(waited);
}

static bool
raise_loopback(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;

    close(fd);
    return is_up;
}

static int
remove_one(const char *path, const struct stat *found, int type,
           struct FTW *where)
{
    (void)found, (void)type, (void)where;
    remove(path);
    return 0;
}

/* Gives the test a place for its files that ends with it. `made` is a directory that has
 * to be removed, or "". */
static bool
make_room(char made[static PATH_MAX])
{
    const char *given = getenv("TMPDIR");
    size_t length = strlen(SHARED_MEMORY);

    made[0] = '\0';
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) <
            0)
        return false;
    given = given ? given : "/tmp";
    if (strncmp(given, SHARED_MEMORY, length) || given[length] == '\0') {
        if (mount("tidings-test", SHARED_MEMORY, "tmpfs", MS_NOSUID | MS_NODEV,
                  "mode=1777") < 0)
            return false;
        if (!strcmp(given, SHARED_MEMORY))
            return true;
    }
    /* Short: the address of a unix socket has 107 bytes. */
    snprintf(made, PATH_MAX, "%s/td-XXXXXX", given);
    return mkdtemp(made) && chmod(made, 01777) == 0 &&
           setenv("TMPDIR", made, 1) == 0;
}

static void
on_child(int number)
{
    (void)number; /* ppoll ends */
}

static void
start_command(char **command)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGCHLD, SIG_DFL);
    execvp(command[0], command);
    _exit(stop(command[0]));
}

/* Runs the command, as process 1, until it ends or nobody has the other end of `alive`
 * any more. Returns the status. */
static int
run_command(int alive, char **command)
{
    struct pollfd waiting = {.fd = alive, .events = POLLIN};
    struct sigaction child = {.sa_handler = on_child};
    sigset_t none;
    int waited;
    pid_t pid, ended;

    sigaction(SIGCHLD, &child, NULL);
    pid = fork();
    if (pid < 0)
        return stop("fork");
    if (pid == 0)
        start_command(command);
    sigemptyset(&none);
    do {
        while ((ended = waitpid(-1, &waited, WNOHANG)) > 0)
            if (ended == pid)
                return status_of(waited);
    } while (ppoll(&waiting, 1, NULL, &none) < 0 && errno == EINTR);
    return 128 + SIGKILL;
}

static int
init(int alive, char **command)
{
    char made[PATH_MAX];
    int status;

    if (!make_room(made))
        return stop("mount");
    if (!raise_loopback())
        return stop("loopback");
    status = run_command(alive, command);
    if (made[0]) {
        kill(-1, SIGKILL); /* programs that still write to it */
        while (waitpid(-1, NULL, 0) > 0)
            continue;
        nftw(made, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    return status;
}

/* Waits for the end of `pid`, at the limit after having ended it. */
static int
await_end(pid_t pid, int *alive, double limit_s)
{
    struct timespec look = {.tv_sec = 2};
    struct able_time spent;
    sigset_t child;
    bool is_late = false;
    int waited;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    able_time_begin(&spent);
    while (waitpid(pid, &waited, is_late ? 0 : WNOHANG) == 0) {
        sigtimedwait(&child, NULL, &look);
        if (able_time_s(&spent) < limit_s)
            continue;
        is_late = true;
        if (*alive < 0)
            kill(pid, SIGKILL);
        else
            close(*alive); /* for process 1, which cleans up */
    }
    if (!is_late)
        return status_of(waited);
    printf("tests/isolated: killed, for it did not end within %.0f s of the "
           "time in "
           "which it could run\n",
           limit_s);
    return STATUS_LATE;
}

int
main(int argc, char **argv)
{
    double limit_s = argc > 2 ? strtod(argv[1], NULL) : 0;
    bool is_alone;
    int ends[2];
    sigset_t child;
    pid_t pid;

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* when ctest is killed, its tests end */
    if (argc > 2 && !strcmp(argv[1], "--leashed")) {
        execvp(argv[2], argv + 2);
        return stop(argv[2]);
    }
    if (limit_s <= 0) {
        fprintf(stderr, "usage: isolated SECONDS | --leashed COMMAND...\n");
        return 2;
    }
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    unsetenv("TIDINGS_URL");
    unsetenv("TIDINGS_CONFIG");

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return stop("pipe");
    is_alone =
        unshare(CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS) == 0;
    pid = fork();
    if (pid < 0)
        return stop("fork");
    if (pid == 0) {
        close(ends[1]);
        if (!is_alone)
            start_command(argv + 2);
        _exit(init(ends[0], argv + 2));
    }
    close(ends[0]);
    return await_end(pid, is_alone ? &ends[1] : &(int){-1}, limit_s);
}
