#include "tests/bench/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/socket.h"

#define READY_MS 30000
#define END_MS   30000

/* Reads the next bytes of its standard output; 0 at the end, -1: nothing. */
static ssize_t
read_some(struct server *s, char *to, size_t size, int wait_ms)
{
    struct pollfd p = {.fd = s->out, .events = POLLIN};

    return poll(&p, 1, wait_ms) > 0 ? read(s->out, to, size) : -1;
}

static void
wait_until_ready(struct server *s)
{
    static const char place[] = "://127.0.0.1:";
    char line[512] = "", *at;
    size_t size = 0;

    while (!strchr(line, '\n')) {
        ssize_t n =
            read_some(s, line + size, sizeof(line) - 1 - size, READY_MS);

        if (n <= 0)
            bench_fail("the server did not get ready");
        size += (size_t)n;
        line[size] = '\0';
    }
    at = strstr(line, place);
    if (!at)
        bench_fail("the server said \"%s\"", line);
    s->port = (unsigned)strtoul(at + strlen(place), NULL, 10);
    *at = '\0';
    while (at > line && at[-1] >= 'a' && at[-1] <= 'z')
        at--;
    s->protocol = protocol_of(at);
    if (strcmp(at, "https") == 0)
        wire_use_tls();
}

void
server_start(struct server *s, char *const *command, int core)
{
    pid_t parent = getpid();
    int out[2];

    if (pipe2(out, O_CLOEXEC))
        bench_fail("pipe: %s", strerror(errno));
    s->pid = fork();
    if (s->pid < 0)
        bench_fail("fork: %s", strerror(errno));
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        bench_pin(core);
        dup2(out[1], STDOUT_FILENO);
        execv(command[0], command);
        fprintf(stderr, "cannot run %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    close(out[1]);
    s->out = out[0];
    wait_until_ready(s);
    fprintf(stderr, "bench: %s has pid %d\n", command[0], (int)s->pid);
}

void
server_stop(struct server *s)
{
    char unread[256];
    ssize_t n;

    kill(s->pid, SIGTERM);
    while ((n = read_some(s, unread, sizeof(unread), END_MS)) > 0)
        ;
    if (n < 0)
        kill(s->pid, SIGKILL);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(s->out);
}
