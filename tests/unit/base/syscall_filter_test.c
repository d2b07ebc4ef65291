#include "broker/base/syscall_filter.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#ifdef TIDINGS_SANITIZED
TEST(a_build_with_a_sanitizer_has_no_filter)
{
    struct problem why = {""};

    assert_int_equal(syscall_filter_apply(false, &why), STATUS_UNSUPPORTED);
    assert_non_null(strstr(why.text, "sanitizer"));
}
#else

/* Arguments with which the call would do no harm if it were not refused. */
struct call {
    const char *name;
    long number;
    long arguments[4];
};

#define CALL(name, ...)    \
    {                      \
#name, SYS_##name, \
        {                  \
            __VA_ARGS__    \
        }                  \
    }

/* In the order of syscall_filter.c. Process 1 gets a signal that is none. */
static const struct call refused[] = {
    CALL(execve),
    CALL(execveat, -1),
#ifdef SYS_fork
    CALL(fork),
    CALL(vfork),
#endif
    CALL(clone, SIGCHLD),
    CALL(ptrace, -1),
    CALL(process_vm_readv, 1),
    CALL(process_vm_writev, 1),
    CALL(kcmp, 1, 1),
    CALL(perf_event_open),
    CALL(bpf, -1),
    CALL(userfaultfd, -1),
    CALL(syslog, -1),
    CALL(mount),
    CALL(umount2),
    CALL(pivot_root),
    CALL(chroot),
    CALL(fsopen),
    CALL(open_tree, -1),
    CALL(move_mount, -1),
    CALL(swapon),
    CALL(quotactl, -1),
    CALL(mknodat, -1),
    CALL(open_by_handle_at, -1),
    CALL(fanotify_init, -1),
    CALL(init_module),
    CALL(finit_module, -1),
    CALL(delete_module),
    CALL(kexec_load, -1),
    CALL(reboot),
    CALL(acct, -1),
    CALL(clock_settime, -1),
    CALL(adjtimex),
    CALL(sethostname, 0, -1),
    CALL(add_key),
    CALL(request_key),
    CALL(keyctl, -1),
    CALL(setuid, -1),
    CALL(setgid, -1),
    CALL(setreuid, -1, -1),
    CALL(setresuid, -1, -1, -1),
    CALL(setresgid, -1, -1, -1),
    CALL(setfsuid, -1),
    CALL(setgroups, -1),
    CALL(capset),
    CALL(unshare),
    CALL(setns, -1),
    CALL(prlimit64, 0, RLIMIT_CORE, -1),
    CALL(personality, 0xffffffff),
    CALL(seccomp, -1),
    CALL(listen, -1),
    CALL(mmap, 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, 0),
    CALL(mprotect, 0, 0, PROT_READ | PROT_EXEC),
    CALL(socket, AF_INET, SOCK_RAW, 0),
    CALL(socket, AF_INET6, SOCK_RAW | SOCK_CLOEXEC, 0),
    CALL(socket, AF_PACKET, SOCK_RAW, 0),
    CALL(socket, AF_KEY, SOCK_RAW, 2),
    CALL(socket, AF_BLUETOOTH, SOCK_RAW, 0),
    CALL(socket, AF_ALG, SOCK_SEQPACKET, 0),
    CALL(socket, AF_VSOCK, SOCK_STREAM, 0),
    /* The kernel does not see the upper half of an int. */
    CALL(socket, AF_PACKET | 1L << 32, SOCK_RAW, 0),
    CALL(ioctl, -1, TIOCSTI),
    CALL(prctl, PR_SET_DUMPABLE, 1),
    CALL(kill, 1, 0),
    CALL(tgkill, 1, 1, 0),
};

/* These are as unknown as calls that this kernel does not have. */
static const struct call others[] = {
    CALL(clone3),
    CALL(io_uring_setup),
    CALL(io_uring_enter, -1),
    CALL(memfd_create),
    CALL(pkey_mprotect, 0, 0, PROT_EXEC),
    CALL(setsid),
    CALL(fchownat, -1),
    CALL(shmget),
    CALL(socket, AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG),
    CALL(socketpair, AF_INET),
    CALL(ioctl, -1, TIOCSCTTY),
    CALL(prctl, PR_SET_PDEATHSIG, 0),
    CALL(clone, CLONE_THREAD | CLONE_NEWUSER),
    {"unknown", 100000, {0}},
};

/* The exit status of a child whose filter was not applied. */
#define UNFILTERED 99

/* What a thread of the child does when the filter holds. */
struct work {
    int gate[2]; /* closed by the child's main thread */
    int (*run)(const struct call *call);
    const struct call *call;
};

/* Returns the errno, or 0 if the call succeeded. */
static int
make_call(const struct call *call)
{
    const long *a = call->arguments;

    errno = 0;
    return syscall(call->number, a[0], a[1], a[2], a[3], -1L, 0L) == -1 ? errno
                                                                        : 0;
}

static void *
run_behind_gate(void *user)
{
    struct work *work = user;
    char byte;

    if (read(work->gate[0], &byte, 1) != 0)
        _exit(UNFILTERED);
    _exit(work->run(work->call));
    return NULL;
}

/* In a new process: a thread begins, the filter is applied, and the thread runs
 * `work`, or, without `on_thread`, the main thread does. Returns the exit
 * status, or 128 and the signal; `said` gets standard error. */
static int
run_filtered(int (*run)(const struct call *), const struct call *call,
             char *said, size_t size)
{
    struct work work = {.run = run, .call = call};
    struct problem why = {""};
    int output[2], status;
    size_t used = 0;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pthread_t thread;

        dup2(output[1], STDERR_FILENO);
        if (pipe2(work.gate, O_CLOEXEC) ||
            pthread_create(&thread, NULL, run_behind_gate, &work) ||
            syscall_filter_apply(false, &why))
            _exit(UNFILTERED);
        close(work.gate[1]);
        pthread_join(thread, NULL);
    }
    close(output[1]);
    while ((n = read(output[0], said + used, size - 1 - used)) > 0)
        used += (size_t)n;
    said[used] = '\0';
    close(output[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* On a thread that was there before the filter: it holds for all. */
TEST(refused_calls_fail_and_the_log_names_them)
{
    char said[4096], line[200];

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const struct call *call = &refused[i];
        int status = run_filtered(make_call, call, said, sizeof(said));

        snprintf(line, sizeof(line),
                 " level=error part=broker msg=\"a forbidden system call was "
                 "refused\" call=%s\n",
                 call->name);
        if (status != EPERM || !strstr(said, line))
            fail_msg("row %zu, %s: %d, %s", i, call->name, status, said);
    }
}

TEST(other_calls_are_unknown_without_a_line)
{
    char said[4096];

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct call *call = &others[i];
        int status = run_filtered(make_call, call, said, sizeof(said));

        if (status != ENOSYS || said[0])
            fail_msg("row %zu, %s: %d, %s", i, call->name, status, said);
    }
}

static void *
return_argument(void *user)
{
    return user;
}

/* Returns the line of the first thing that did not work; 0: all did. */
static int
use_libraries(const struct call *call)
{
    struct addrinfo *found;
    struct rlimit limit;
    pthread_t thread;
    void *result;
    int pair[2];

    (void)call;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != -1 || errno != ENOSYS)
        return __LINE__;
    if (pthread_create(&thread, NULL, return_argument, &pair) ||
        pthread_join(thread, &result) || result != &pair)
        return __LINE__;
    if (getaddrinfo("localhost", "80", NULL, &found))
        return __LINE__;
    freeaddrinfo(found);
    if (!dlopen("libanl.so.1", RTLD_NOW | RTLD_LOCAL)) /* as NSS loads some */
        return __LINE__;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return __LINE__;
    if (socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) < 0 &&
        errno != EAFNOSUPPORT)
        return __LINE__;
    if (getrlimit(RLIMIT_NOFILE, &limit) || raise(SIGCONT) || kill(getpid(), 0))
        return __LINE__;
    return 0;
}

/* Without a filter such a call has a bad address. */
TEST(a_loop_gets_no_ring_before_the_filter)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        syscall_filter_begin();
        _exit(syscall(SYS_io_uring_setup, 1, NULL) < 0 ? errno : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), ENOSYS);
}

TEST(the_calls_of_libraries_work)
{
    char said[4096];

    assert_int_equal(run_filtered(use_libraries, NULL, said, sizeof(said)), 0);
    assert_string_equal(said, "");
}
#endif
