#include "tests/bench/mqtt_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"

#define ASK_MS   10
#define READY_MS 10000

void
peer_write_file(const char *dir, const char *name, const char *format, ...)
{
    char path[128];
    va_list arguments;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "we");
    if (!file)
        bench_fail("cannot write %s: %s", path, strerror(errno));
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    if (fclose(file))
        bench_fail("cannot write %s: %s", path, strerror(errno));
}

pid_t
peer_fork(int core)
{
    pid_t parent = getpid(), pid;

    fflush(stdout);
    pid = fork();
    if (pid < 0)
        bench_fail("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        bench_pin(core);
    }
    return pid;
}

static unsigned
free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        bench_fail("no port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

static bool
is_listening(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is = fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof(address));
    if (fd >= 0)
        close(fd);
    return is;
}

pid_t
peer_start(const char *dir, int core, unsigned inflight, unsigned *port)
{
    char path[128];
    pid_t pid;

    *port = free_port();
    peer_write_file(dir, "mosquitto.conf",
                    "listener %u 127.0.0.1\nallow_anonymous true\n"
                    "log_type error\nmax_inflight_messages %u\n"
                    "max_queued_messages 0\n",
                    *port, inflight);
    snprintf(path, sizeof(path), "%s/mosquitto.conf", dir);
    pid = peer_fork(core);
    if (pid == 0) {
        execlp("mosquitto", "mosquitto", "-c", path, NULL);
        execl("/usr/sbin/mosquitto", "mosquitto", "-c", path, NULL);
        fprintf(stderr, "cannot run mosquitto: %s\n", strerror(errno));
        _exit(127);
    }
    for (int waited = 0; !is_listening(*port); waited += ASK_MS) {
        if (waited > READY_MS || waitpid(pid, NULL, WNOHANG) != 0)
            bench_fail("mosquitto did not get ready");
        poll(NULL, 0, ASK_MS);
    }
    return pid;
}

void
peer_stop(pid_t pid)
{
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}
