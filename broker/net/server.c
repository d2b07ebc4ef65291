#include "broker/net/server.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "broker/net/listener.h"
#include "broker/net/service.h"
#include "broker/net/tls.h"

/* Ends the services that were made. */
static void
end_services(struct server *server, int64_t cut_at_us)
{
    for (unsigned i = 0; i < server->n_services; i++)
        if (server->services[i].server)
            service_end(&server->services[i], cut_at_us);
    for (unsigned i = 0; i < server->n_services; i++)
        service_join(&server->services[i]);
    for (unsigned i = 0; i < server->n_services; i++)
        service_fini(&server->services[i]);
    tls_close(server->tls);
    clients_fini(&server->unlimited);
    free(server);
}

/* Descriptors that a broker needs before the first connection, and some for
 * reads and files (measured: 39 with two threads). With fewer, libraries stop
 * midway in their start, or never finish it. */
#define FILES_LEAST     60
#define FILES_OF_THREAD 12

/* Connections leave a tenth of the descriptors to the broker. */
static int
find_fd_end(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur > INT_MAX)
        return INT_MAX;
    return (int)(files.rlim_cur - files.rlim_cur / 10);
}

/* One client leaves half of the descriptors to others. */
static void
limit_connections(struct server *s)
{
    uint64_t most = (uint64_t)s->fd_end / 2;

    if (clients_limit_of_each(s->options.clients, CLIENT_CONNECTIONS) > most)
        clients_limit_each(s->options.clients, CLIENT_CONNECTIONS, most);
}

/* The worker pool belongs to the process. It must have room for each thread's
 * loads for its subscribers (two at once, readers/shared_messages.h), and as
 * many again for documents. libuv reads the variable when the pool is first
 * used. */
static void
size_pool(unsigned n_services)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", 4 * n_services);
    setenv("UV_THREADPOOL_SIZE", text, 0);
}

enum status
server_open(struct server **server, const struct server_options *options,
            struct problem *why)
{
    unsigned n = options->threads ? options->threads : 1;
    struct server *s = calloc(1, sizeof(*s) + n * sizeof(s->services[0]));
    struct addresses addresses;
    enum status rc = STATUS_OK;

    *server = NULL;
    if (!s)
        return problem_memory(why);
    s->options = *options;
    s->n_services = n;
    size_pool(n);
    s->port = options->port;
    s->fd_end = find_fd_end();
    clients_init(&s->unlimited, 100);
    s->clients = options->clients ? options->clients : &s->unlimited;
    if (options->clients)
        limit_connections(s);
    if (options->tls_cert)
        rc = tls_open(&s->tls, options->tls_cert, options->tls_key, why);
    if (!rc)
        rc = addresses_find(&addresses, options->host, &s->port, why);
    for (unsigned i = 0; i < n && !rc; i++)
        rc = service_init(&s->services[i], s, i, &addresses, why);
    for (unsigned i = 0; i < n && !rc; i++)
        rc = service_start(&s->services[i], why);
    if (rc) {
        end_services(s, 0);
        return rc;
    }
    *server = s;
    return STATUS_OK;
}

enum status
server_check(const struct server_options *options, struct problem *why)
{
    rlim_t least = FILES_LEAST + FILES_OF_THREAD * options->threads;
    struct addresses addresses;
    struct rlimit files;
    unsigned port = options->port;

    if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < least)
        return problem(why, STATUS_IO,
                       "%llu files may be open, and at least %llu must be: see "
                       "ulimit -n",
                       (unsigned long long)files.rlim_cur,
                       (unsigned long long)least);
    return addresses_find(&addresses, options->host, &port, why);
}

bool
server_show(struct server *server, struct identity *id)
{
    return tls_show(server->tls, id);
}

void
server_close(struct server *server, int64_t wait_us)
{
    if (!server)
        return;
    server_stop_accepting(server);
    end_services(server, clock_steady_us() + wait_us);
}

unsigned
server_port(const struct server *server)
{
    return server->port;
}

void
server_stop_accepting(struct server *server)
{
    atomic_store(&server->is_stopping, true);
    for (unsigned i = 0; i < server->n_services; i++)
        service_wake(&server->services[i]);
}

unsigned
server_threads(const struct server *server)
{
    return server->n_services;
}

struct service *
server_service(struct server *server, unsigned n)
{
    return &server->services[n];
}

unsigned
service_number(const struct service *service)
{
    return service->number;
}
