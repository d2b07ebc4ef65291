#include "broker/base/syscall_filter.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#include "broker/base/diag.h"

/* The handler of refused calls sets their result: on these processors. A
 * sanitizer starts processes and traces them. */
#if defined(TIDINGS_SANITIZED)
#elif defined(__x86_64__)
#define RESULT_OF(context) ((context)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define RESULT_OF(context) ((context)->uc_mcontext.regs[0])
#endif

#ifndef PR_SET_VMA /* Linux 5.17 */
#define PR_SET_VMA 0x53564d41
#endif

/* Namespaces that clone() can make. */
#define NAMESPACES                                                 \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | \
     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

#define OTHERS SCMP_ACT_ERRNO(ENOSYS)

#ifdef RESULT_OF
/* add_rule leaves out a name that the processor or libseccomp does not have. */
static const char *const allowed[] = {
    /* descriptors */
    "read", "readv", "pread64", "preadv", "preadv2", "write", "writev",
    "pwrite64", "pwritev", "pwritev2", "close", "close_range", "dup", "dup2",
    "dup3", "fcntl", "lseek", "pipe", "pipe2", "eventfd", "eventfd2",
    "timerfd_create", "timerfd_settime", "timerfd_gettime", "signalfd",
    "signalfd4", "sendfile", "splice", "copy_file_range", "inotify_init",
    "inotify_init1", "inotify_add_watch", "inotify_rm_watch",
    /* files; SQLite calls fchown where root runs the broker */
    "open", "openat", "openat2", "creat", "stat", "lstat", "fstat",
    "newfstatat", "statx", "statfs", "fstatfs", "access", "faccessat",
    "faccessat2", "readlink", "readlinkat", "getcwd", "getdents", "getdents64",
    "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat",
    "renameat2", "link", "linkat", "symlink", "symlinkat", "chmod", "fchmod",
    "fchmodat", "fchown", "umask", "utimensat", "futimesat", "utimes",
    "truncate", "ftruncate", "fallocate", "flock", "fsync", "fdatasync",
    "sync_file_range", "syncfs", "fadvise64", "readahead",
    /* memory */
    "brk", "munmap", "mremap", "madvise", "msync", "mincore", "mlock", "mlock2",
    "munlock", "membarrier",
    /* sockets; bind() is for ports of the caller and for getaddrinfo() */
    "connect", "bind", "accept", "accept4", "shutdown", "getsockname",
    "getpeername", "getsockopt", "setsockopt", "send", "sendto", "sendmsg",
    "sendmmsg", "recv", "recvfrom", "recvmsg", "recvmmsg",
    /* waiting */
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
    "epoll_pwait2", "poll", "ppoll", "select", "pselect6", "futex",
    "futex_waitv", "nanosleep", "clock_nanosleep", "restart_syscall", "pause",
    /* clocks, and figures of the process and the machine */
    "clock_gettime", "clock_getres", "gettimeofday", "time", "times",
    "getrusage", "getrlimit", "sysinfo", "uname", "getcpu", "getrandom",
    "getpriority", "setpriority", "sched_yield", "sched_getaffinity",
    "sched_getparam", "sched_getscheduler", "sched_get_priority_max",
    "sched_get_priority_min", "getpid", "getppid", "gettid", "getpgid",
    "getpgrp", "getsid", "getuid", "geteuid", "getgid", "getegid", "getresuid",
    "getresgid", "getgroups", "capget",
    /* threads and signals; each thread signals its own process only */
    "exit", "exit_group", "set_robust_list", "get_robust_list",
    "set_tid_address", "rseq", "rt_sigaction", "rt_sigprocmask",
    "rt_sigpending", "rt_sigsuspend", "rt_sigreturn", "rt_sigtimedwait",
    "sigaltstack", "getitimer", "setitimer", "alarm"};

static const char *const refused[] = {
    /* programs and processes */
    "execve", "execveat", "fork", "vfork",
    /* looking into processes and the kernel */
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise",
    "kcmp", "pidfd_getfd", "pidfd_send_signal", "perf_event_open", "bpf",
    "userfaultfd", "syslog", "lookup_dcookie",
    /* file systems */
    "mount", "umount2", "pivot_root", "chroot", "mount_setattr", "move_mount",
    "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "swapon", "swapoff",
    "quotactl", "quotactl_fd", "mknod", "mknodat", "name_to_handle_at",
    "open_by_handle_at", "fanotify_init",
    /* the kernel and the machine */
    "init_module", "finit_module", "delete_module", "kexec_load",
    "kexec_file_load", "reboot", "acct", "iopl", "ioperm", "modify_ldt",
    "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname",
    "setdomainname", "vhangup",
    /* keys of the kernel */
    "add_key", "request_key", "keyctl",
    /* identity, namespaces and limits */
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid",
    "setfsuid", "setfsgid", "setgroups", "capset", "unshare", "setns",
    "setrlimit", "personality", "seccomp",
    /* sockets that others could connect to */
    "listen"};

/* A call whose group depends on its arguments. With any other arguments it gets
 * ENOSYS. The kernel looks at the lower half of an argument that is an
 * int, and so do these; no two of a call match the same arguments. */
struct rule {
    const char *name;
    bool is_allowed;
    unsigned n;
    struct scmp_arg_cmp when[2];
};

#define HAS(arg, mask, bits)                                \
    {                                                       \
        (arg), SCMP_CMP_MASKED_EQ, (uint32_t)(mask), (bits) \
    }
#define IS(arg, value) HAS(arg, UINT32_MAX, value)
#define IS_POINTER(arg)          \
    {                            \
        (arg), SCMP_CMP_NE, 0, 0 \
    }
#define IS_NULL(arg)             \
    {                            \
        (arg), SCMP_CMP_EQ, 0, 0 \
    }
#define IS_TYPE(arg, type) HAS(arg, ~(SOCK_CLOEXEC | SOCK_NONBLOCK), type)

static const struct rule rules[] = {
    {"clone", true, 1, {HAS(0, CLONE_THREAD | NAMESPACES, CLONE_THREAD)}},
    {"clone", false, 1, {HAS(0, CLONE_THREAD, 0)}},

    {"mmap", true, 1, {HAS(2, PROT_EXEC, 0)}},
    {"mmap", true, 1, {HAS(2, PROT_WRITE | PROT_EXEC, PROT_EXEC)}},
    {"mmap",
     false,
     1,
     {HAS(2, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC)}},
    {"mprotect", true, 1, {HAS(2, PROT_EXEC, 0)}},
    {"mprotect", false, 1, {HAS(2, PROT_EXEC, PROT_EXEC)}},

    {"socket", true, 1, {IS(0, AF_UNIX)}},
    {"socket", true, 2, {IS(0, AF_INET), IS_TYPE(1, SOCK_STREAM)}},
    {"socket", true, 2, {IS(0, AF_INET), IS_TYPE(1, SOCK_DGRAM)}},
    {"socket", false, 2, {IS(0, AF_INET), IS_TYPE(1, SOCK_RAW)}},
    {"socket", true, 2, {IS(0, AF_INET6), IS_TYPE(1, SOCK_STREAM)}},
    {"socket", true, 2, {IS(0, AF_INET6), IS_TYPE(1, SOCK_DGRAM)}},
    {"socket", false, 2, {IS(0, AF_INET6), IS_TYPE(1, SOCK_RAW)}},
    /* getaddrinfo() asks for the addresses of this machine */
    {"socket", true, 2, {IS(0, AF_NETLINK), IS(2, NETLINK_ROUTE)}},
    {"socket", false, 1, {IS(0, AF_PACKET)}},
    {"socket", false, 1, {IS(0, AF_KEY)}},
    {"socket", false, 1, {IS(0, AF_CAN)}},
    {"socket", false, 1, {IS(0, AF_BLUETOOTH)}},
    {"socket", false, 1, {IS(0, AF_ALG)}},
    {"socket", false, 1, {IS(0, AF_VSOCK)}},
    {"socket", false, 1, {IS(0, AF_XDP)}},
    {"socketpair", true, 1, {IS(0, AF_UNIX)}},

    {"ioctl", true, 1, {IS(1, FIONBIO)}},
    {"ioctl", true, 1, {IS(1, FIOCLEX)}},
    {"ioctl", true, 1, {IS(1, FIONREAD)}},
    {"ioctl", true, 1, {IS(1, SIOCOUTQ)}},
    {"ioctl", true, 1, {IS(1, SIOCOUTQNSD)}},
    {"ioctl", true, 1, {IS(1, TCGETS)}}, /* isatty() */
    {"ioctl", false, 1, {IS(1, TIOCSTI)}},

    {"prctl", true, 1, {IS(0, PR_SET_NAME)}},
    {"prctl", true, 1, {IS(0, PR_GET_NAME)}},
    {"prctl", true, 1, {IS(0, PR_SET_VMA)}}, /* the C library names memory */
    {"prctl", false, 1, {IS(0, PR_SET_DUMPABLE)}},

    {"prlimit64", true, 2, {IS(0, 0), IS_NULL(2)}},
    {"prlimit64", false, 1, {IS_POINTER(2)}},
};

/* Calls that send a signal to the process of their first argument. */
static const char *const signals[] = {"kill", "tgkill", "rt_sigqueueinfo",
                                      "rt_tgsigqueueinfo"};

#define REFUSED_MAX \
    (N_ELEMENTS(refused) + N_ELEMENTS(rules) + N_ELEMENTS(signals))

/* The refused calls, for the handler: written before the filter is loaded. */
static struct {
    int number;
    const char *name;
} known[REFUSED_MAX];

static size_t n_known;

/* On the thread that made the refused call: the kernel sends SIGSYS instead. So
 * this may do what the thread might. diag makes no such call, so no lock of it
 * is held. */
static void
on_refused(int signal, siginfo_t *info, void *context)
{
    size_t i = 0;

    (void)signal;
    while (i < n_known - 1 && known[i].number != info->si_syscall)
        i++;
    DIAG(DIAG_ERROR, "broker", "a forbidden system call was refused",
         diag_text("call", known[i].name));
    RESULT_OF((ucontext_t *)context) = -EPERM;
}

/* Returns 0, or a negative errno. */
static int
add_rule(scmp_filter_ctx filter, const char *name, bool is_allowed, unsigned n,
         const struct scmp_arg_cmp *when)
{
    int number = seccomp_syscall_resolve_name(name);

    if (number == __NR_SCMP_ERROR)
        return 0;
    if (!is_allowed) {
        known[n_known].number = number;
        known[n_known++].name = name;
    }
    return seccomp_rule_add_array(
        filter, is_allowed ? SCMP_ACT_ALLOW : SCMP_ACT_TRAP, number, n, when);
}

/* Returns 0, or a negative errno. */
static int
load(scmp_filter_ctx filter, bool may_listen)
{
    uint64_t pid = (uint64_t)getpid();
    const struct scmp_arg_cmp own = {0, SCMP_CMP_EQ, pid, 0};
    const struct scmp_arg_cmp other = {0, SCMP_CMP_NE, pid, 0};
    int rc = 0;

    n_known = 0;
    for (size_t i = 0; i < N_ELEMENTS(allowed) && !rc; i++)
        rc = add_rule(filter, allowed[i], true, 0, NULL);
    for (size_t i = 0; i < N_ELEMENTS(refused) && !rc; i++)
        rc = add_rule(filter, refused[i],
                      may_listen && !strcmp(refused[i], "listen"), 0, NULL);
    for (size_t i = 0; i < N_ELEMENTS(rules) && !rc; i++)
        rc = add_rule(filter, rules[i].name, rules[i].is_allowed, rules[i].n,
                      rules[i].when);
    for (size_t i = 0; i < N_ELEMENTS(signals) && !rc; i++) {
        rc = add_rule(filter, signals[i], true, 1, &own);
        if (!rc)
            rc = add_rule(filter, signals[i], false, 1, &other);
    }
    /* Calls of another processor's table. */
    if (!rc)
        rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, OTHERS);
    if (!rc)
        rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (!rc) /* a tree: some ten steps a call instead of hundreds */
        rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    return rc ? rc : seccomp_load(filter);
}

void
syscall_filter_begin(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int ring = seccomp_syscall_resolve_name("io_uring_setup");

    if (filter && ring != __NR_SCMP_ERROR &&
        !seccomp_rule_add(filter, OTHERS, ring, 0))
        (void)!seccomp_load(filter); /* syscall_filter_apply reports why not */
    seccomp_release(filter);
}

enum status
syscall_filter_apply(bool may_listen, struct problem *why)
{
    struct sigaction action = {.sa_sigaction = on_refused,
                               .sa_flags = SA_SIGINFO | SA_NODEFER};
    scmp_filter_ctx filter;
    int rc;

    filter = seccomp_init(OTHERS);
    if (!filter)
        return problem_memory(why);
    sigaction(SIGSYS, &action, NULL);
    rc = load(filter, may_listen);
    seccomp_release(filter);
    if (!rc)
        return STATUS_OK;
    errno = rc < 0 ? -rc : EPERM;
    return problem_errno(why, "the kernel takes no filter of", "system calls");
}
#else
void
syscall_filter_begin(void)
{
}

enum status
syscall_filter_apply(bool may_listen, struct problem *why)
{
    (void)may_listen;
    return problem(why, STATUS_UNSUPPORTED,
                   "there is none for this processor, or for a build with a "
                   "sanitizer");
}
#endif
