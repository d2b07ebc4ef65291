#include "tests/bench/mqtt_bridge.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/mqtt_peer.h"
#include "tests/bench/socket.h"

#define ARGUMENTS_MAX 32

/* Writes the configuration and deletes the ledger of an earlier bridge. */
static void
configure(const struct bridge *b, const char *keys)
{
    static const char *const names[] = {"", "-wal", "-shm"};
    char path[128];

    peer_write_file(b->dir, "tidingsd.ini",
                    "[mqtt bench]\nurl = mqtt://127.0.0.1:%u\n"
                    "inflight = %u\n%s",
                    b->port, b->inflight, keys);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/data/mqtt.db%s", b->dir, names[i]);
        unlink(path);
    }
}

static void
start(struct bridge *b, bool has_bridge)
{
    static char listen[] = "--listen", any[] = "127.0.0.1:0", data[] = "--data",
                config[] = "--config", dir[96], file[96];
    char *command[ARGUMENTS_MAX + 8];
    int n = 0;

    for (; b->command[n] && n < ARGUMENTS_MAX; n++)
        command[n] = b->command[n];
    snprintf(dir, sizeof(dir), "%s/data", b->dir);
    snprintf(file, sizeof(file), "%s/tidingsd.ini", b->dir);
    command[n++] = listen;
    command[n++] = any;
    command[n++] = data;
    command[n++] = dir;
    if (has_bridge) {
        command[n++] = config;
        command[n++] = file;
    }
    command[n] = NULL;
    server_start(&b->server, command, b->core);
}

void
bridge_start(struct bridge *b, const char *keys)
{
    b->fd = -1;
    if (keys)
        configure(b, keys);
    start(b, keys);
    if (!keys)
        return;
    b->fd = wire_connect(b->server.port, 0);
    while (bridge_metric(b, "tidings_mqtt_connected") == 0)
        poll(NULL, 0, 1);
}

void
bridge_stop(struct bridge *b)
{
    if (b->fd >= 0)
        wire_close(b->fd);
    server_stop(&b->server);
}

uint64_t
bridge_metric(struct bridge *b, const char *name)
{
    static const char request[] =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static char answer[262144];
    size_t n = 0, all = sizeof(answer);
    char line[64];
    const char *at;

    if (wire_send(b->fd, request, sizeof(request) - 1) < 0)
        bench_fail("cannot ask for metrics: %s", strerror(errno));
    while (n < all && n + 1 < sizeof(answer)) {
        ssize_t more = wire_receive(b->fd, answer + n, sizeof(answer) - 1 - n);
        const char *end, *length;

        if (more <= 0)
            bench_fail("the server closed the connection");
        n += (size_t)more;
        answer[n] = '\0';
        end = strstr(answer, "\r\n\r\n");
        length = strcasestr(answer, "\r\ncontent-length:");
        if (end && length && length < end)
            all = (size_t)(end + 4 - answer) +
                  strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
    }
    snprintf(line, sizeof(line), "\n%s ", name);
    at = strstr(answer, line);
    return at ? strtoull(at + strlen(line), NULL, 10) : 0;
}
