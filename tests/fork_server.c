/*
 * fork_server.c - loads a program once, and starts it many times.
 *
 * A start of `tidings` loads 52 libraries, most of them libcurl's, which is some 300 times
 * the work of what it does itself then: a third of what the end-to-end tests cost
 * (measured: 28 ms of CPU; a fork takes 3, or 15 if the destructors of all libraries ran
 * at its end). Preloaded (LD_PRELOAD), this library stops the program before its main(),
 * where all is loaded and no thread runs, and forks for each request. AFL's fork server
 * works like this. A fork has the arguments, the environment, the folder and the standard
 * files of its request, also for /proc, and the parent of the server as its own: who asks
 * waits for it as for any child. The kernel kills the fork when that parent ends.
 *
 *     TIDINGS_FORK_SERVER   descriptor of a socket of SOCK_SEQPACKET
 *     first message         an int, 0: requests may come
 *     request               folder, number of arguments, arguments, environment: texts,
 *                           each with its end; and the three standard files
 *     answer                the process ID, an int; negative: an errno
 *
 * The server ends with its socket, and without the first message where the kernel lacks
 * what it needs. Not for sanitizers, whose runtimes have begun by then: with
 * AddressSanitizer a fork took nearly as long as a start, and a broker hung.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/prctl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_FILES   3
#define N_WORDS   65536
#define TEXT_SIZE ((size_t)1 << 20)

typedef int main_fn(int argc, char **argv, char **env);
typedef void hook_fn(void);
typedef int start_fn(main_fn *program, int argc, char **argv, hook_fn *init,
                     hook_fn *fini, hook_fn *loader_fini, void *stack_end);

/* The request; of a fork: its arguments and environment for good. For /proc the kernel
 * reads `text` from pages that belong to no file. */
static char *text; /* TEXT_SIZE */
static char *words[N_WORDS];

/* Where the kernel finds the parts of a program, of which a fork changes the
 * arguments and the environment. */
static struct prctl_mm_map map;

static void
stop(const char *what)
{
    perror(what);
    _exit(126);
}

static void
read_map(void)
{
    /* By the numbers of proc(5). */
    void *const fields[] = {
        [26] = &map.start_code, [27] = &map.end_code, [28] = &map.start_stack,
        [45] = &map.start_data, [46] = &map.end_data, [47] = &map.start_brk};
    FILE *stat = fopen("/proc/self/stat", "re");
    char *line = NULL, *word;
    size_t room = 0;

    if (!stat || getline(&line, &room, stat) < 0)
        stop("fork_server: /proc/self/stat");
    fclose(stat);
    word = strrchr(line, ')') + 2; /* the name before it may have spaces */
    for (size_t i = 3; i < sizeof(fields) / sizeof(fields[0]); i++) {
        unsigned long long value = strtoull(word, &word, 10);

        if (i == 3)
            word++; /* a letter */
        else if (fields[i])
            memcpy(fields[i], &value, sizeof(value));
        word++;
    }
    free(line);
    map.exe_fd = UINT32_MAX;
}

/* Reads a request. Returns the size of its text; 0: there will be none. */
static size_t
receive(int server, int files[N_FILES])
{
    union {
        char room[CMSG_SPACE(N_FILES * sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec at = {text, TEXT_SIZE};
    struct msghdr message = {.msg_iov = &at,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(server, &message, 0);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    if (n == 0)
        return 0;
    if (n < 0 || text[n - 1] || !header ||
        header->cmsg_len != CMSG_LEN(N_FILES * sizeof(int)))
        stop("fork_server: no request");
    memcpy(files, CMSG_DATA(header), N_FILES * sizeof(int));
    return (size_t)n;
}

/* As fork(2), but a sibling of this process. glibc keeps the ID of the thread at
 * `id`, where the kernel changes it. */
static int
fork_sibling(int *id)
{
    /* `id` is the fourth or the fifth argument, depending on the processor. */
    long pid = syscall(SYS_clone,
                       CLONE_PARENT | CLONE_CHILD_SETTID |
                           CLONE_CHILD_CLEARTID | SIGCHLD,
                       NULL, NULL, id, id);

    return pid < 0 ? -errno : (int)pid;
}

/* Makes the fork what the request says. Returns the number of arguments. */
static int
become(int server, const int files[N_FILES], size_t size)
{
    const char *folder = text, *count = text + strlen(text) + 1;
    char *at = text + (count - text) + strlen(count) + 1;
    char *env = NULL;
    size_t argc = strtoul(count, NULL, 10);
    size_t n = 0;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL))
        stop("fork_server: the parent's end");
    close(server);
    for (int i = 0; i < N_FILES; i++) {
        if (dup2(files[i], i) < 0)
            stop("fork_server: a standard file");
        close(files[i]);
    }
    map.arg_start = (uintptr_t)at;
    for (; at < text + size; at += strlen(at) + 1) {
        if (n == argc) {
            env = at;
            words[n++] = NULL;
        }
        if (n + 2 > N_WORDS)
            stop("fork_server: too many arguments");
        words[n++] = at;
    }
    map.brk = (uintptr_t)sbrk(0);
    map.arg_end = map.env_start = (uintptr_t)env;
    map.env_end = (uintptr_t)(text + size);
    if (!env || chdir(folder) ||
        prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0))
        stop("fork_server: the request");
    environ = words + argc + 1;
    return (int)argc;
}

/* Forks for each request. Returns the number of arguments in each fork. */
static int
serve(int server)
{
    int files[N_FILES], pid = 0;
    int *id = NULL;
    unsigned size_of_map = 0;
    size_t size;

    if (prctl(PR_GET_TID_ADDRESS, &id) ||
        prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size_of_map, 0, 0) ||
        size_of_map != sizeof(map))
        _exit(0);
    text = mmap(NULL, TEXT_SIZE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (text == MAP_FAILED)
        stop("fork_server: no memory");
    read_map();
    while (send(server, &pid, sizeof(pid), MSG_NOSIGNAL) > 0 &&
           (size = receive(server, files))) {
        pid = fork_sibling(id);
        if (!pid)
            return become(server, files, size);
        for (int i = 0; i < N_FILES; i++)
            close(files[i]);
    }
    _exit(0);
}

int __libc_start_main(main_fn *program, int argc, char **argv, hook_fn *init,
                      hook_fn *fini, hook_fn *loader_fini, void *stack_end);

/* In front of glibc's, which calls main(). */
int
__libc_start_main(main_fn *program, int argc, char **argv, hook_fn *init,
                  hook_fn *fini, hook_fn *loader_fini, void *stack_end)
{
    void *found = dlsym(RTLD_NEXT, "__libc_start_main");
    const char *server = getenv("TIDINGS_FORK_SERVER");
    start_fn *start;

    if (!found)
        stop("fork_server: __libc_start_main");
    memcpy(&start, &found, sizeof(start));
    if (server) {
        argc = serve(atoi(server));
        argv = words;
        loader_fini = NULL; /* it runs the destructors of libraries */
    }
    return start(program, argc, argv, init, fini, loader_fini, stack_end);
}
