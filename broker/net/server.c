#include "broker/net/server.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "broker/base/diag.h"
#include "broker/net/connection.h"
#include "broker/net/exchange.h"
#include "broker/net/service.h"
#include "broker/net/socket.h"

#define SECOND_US 1000000

/*
 * The end
 *
 *     running --service_end--> ending --not busy, or too late--> cut
 *                                                                 |
 *     thread joined <-- loop left <-- mailbox empty, no jobs <-- no sockets
 *
 * It is ending only when all tasks that were posted before service_end have run
 * (end_service): the farewell to connected clients is such a task, and makes
 * them busy. An alarm or a job between the two calls that only saw the second
 * one would find no connection busy, and cut them all without a farewell.
 */

/* Checks each connection of a list, or cuts it. That may call a handler, which
 * may change any connection. So this walks a list of its own, from which
 * changed connections disappear. */
static void
check_connections(struct list *list, int64_t now_us, bool is_cut)
{
    struct list batch;
    struct connection *connection;

    list_init(&batch);
    list_move(&batch, list);
    list_drain (connection, &batch, node) {
        list_append(list, &connection->node);
        if (is_cut)
            connection_kill(connection);
        else if (!exchange_look(connection))
            connection_check(connection, now_us);
    }
}

static void
on_late_end(struct alarm *alarm)
{
    (void)alarm; /* on_turn follows */
}

/* A task: service_end. */
static void
end_service(struct task *task)
{
    struct service *s = list_entry(task, struct service, end);

    s->is_ending = true;
    s->late_end.ring = on_late_end;
    loop_set_alarm(s->loop, &s->late_end, s->cut_at_us);
}

/* Before the loop sleeps. Does what this turn put off. That may put off more,
 * but only for bytes that were read already, so the loop below ends. */
static bool
on_turn(void *user)
{
    struct service *s = user;
    struct connection *connection;

    list_drain (connection, &s->ready, ready)
        if (!stream_proceed(connection))
            connection_proceed(connection);
    if (s->server->options.on_turn)
        s->server->options.on_turn(s, s->server->options.user);
    if (s->is_ending) {
        if (!s->is_cut && (!s->n_busy || clock_steady_us() >= s->cut_at_us)) {
            s->is_cut = true;
            check_connections(&s->heads, 0, true);
            check_connections(&s->timed, 0, true);
            check_connections(&s->untimed, 0, true);
        }
        if (s->is_cut && list_is_empty(&s->heads) && list_is_empty(&s->timed) &&
            list_is_empty(&s->untimed))
            loop_end(s->loop);
    }
    return false;
}

/* Once a second */

/* How often connections without a deadline are looked at. */
#define UNTIMED_SECONDS 10

static void
on_second(struct alarm *alarm)
{
    struct service *s = list_entry(alarm, struct service, second);
    int64_t now_us = clock_steady_us();

    thread_show_life(&s->thread);
    check_connections(&s->heads, now_us, false);
    check_connections(&s->timed, now_us, false);
    if (++s->n_seconds % UNTIMED_SECONDS == 0)
        check_connections(&s->untimed, now_us, false);
    listeners_resume(s);
    loop_set_alarm(s->loop, alarm, now_us + SECOND_US);
}

static int64_t
tick_us(const struct service *s)
{
    int64_t us = s->server->options.tick_us;

    return us ? us : SECOND_US;
}

static void
on_tick(struct alarm *alarm)
{
    struct service *s = list_entry(alarm, struct service, tick);
    struct server_options *options = &s->server->options;

    loop_set_alarm(s->loop, alarm, clock_steady_us() + tick_us(s));
    if (!s->is_cut && options->on_tick)
        options->on_tick(s, options->user);
}

/* For other threads, and later */

static void
on_wake(void *user)
{
    struct service *s = user;
    struct server_options *options = &s->server->options;

    if (atomic_load(&s->server->is_stopping))
        listeners_close(s);
    if (options->on_wake)
        options->on_wake(s, options->user);
}

void
service_wake(struct service *s)
{
    loop_wake(s->loop);
}

static void
on_wake_later(struct alarm *alarm)
{
    service_wake(list_entry(alarm, struct service, wake));
}

void
service_wake_later(struct service *s, int64_t wait_us)
{
    int64_t at_us = clock_steady_us() + wait_us;

    if (!s->wake.is_set || at_us < s->wake.at_us)
        loop_set_alarm(s->loop, &s->wake, at_us);
}

void
service_post(struct service *s, struct task *task)
{
    loop_post(s->loop, task);
}

void
service_work(struct service *s, struct job *job)
{
    loop_work(s->loop, job);
}

/* Life */

static void
run_service(struct thread *thread)
{
    struct service *s = thread->user;

    loop_run(s->loop);
}

enum status
service_init(struct service *s, struct server *server, unsigned number,
             const struct lookup_answer *addresses, struct problem *why)
{
    static const struct loop_calls calls = {on_wake, on_turn};
    int64_t now_us = clock_steady_us();

    if (!random_hex(s->id, sizeof(s->id)))
        return problem(why, STATUS_IO, "the kernel has no random numbers");
    s->next_id = strtoull(s->id + REQUEST_ID_THREAD_SIZE, NULL, 16);
    s->server = server;
    s->number = number;
    s->first_phase = &exchange_head;
    s->listeners.spare = -1;
    list_init(&s->heads);
    list_init(&s->timed);
    list_init(&s->untimed);
    list_init(&s->ready);
    s->second.ring = on_second;
    s->tick.ring = on_tick;
    s->wake.ring = on_wake_later;

    s->loop = loop_new(&calls, s);
    if (!s->loop)
        return problem(why, STATUS_IO,
                       "cannot make an event loop: no memory or descriptors "
                       "left");
    loop_set_alarm(s->loop, &s->second, now_us + SECOND_US);
    loop_set_alarm(s->loop, &s->tick, now_us + tick_us(s));
    return listeners_open(s, addresses, why);
}

void
service_end(struct service *s, int64_t cut_at_us)
{
    if (!s->loop || atomic_exchange(&s->is_end_asked, true))
        return;
    s->cut_at_us = cut_at_us;
    s->end.run = end_service;
    loop_post(s->loop, &s->end);
}

/* The server */

/* Descriptors that a broker needs before the first connection, and some for
 * reads and files (measured: 39 with two threads). With fewer, libraries stop
 * midway in their start, or never finish it. */
#define FILES_LEAST     60
#define FILES_OF_THREAD 12

/* Ends the services that were made. */
static void
end_services(struct server *server, int64_t cut_at_us)
{
    atomic_store(&server->is_stopping, true);
    for (unsigned i = 0; i < server->n_services; i++)
        if (server->services[i].server)
            service_end(&server->services[i], cut_at_us);
    for (unsigned i = 0; i < server->n_services; i++)
        if (server->services[i].thread.is_running)
            thread_stop(&server->services[i].thread);
    /* No thread that opens files runs any more. */
    for (unsigned i = 0; i < server->n_services; i++) {
        struct service *s = &server->services[i];

        if (!s->server)
            continue; /* never made */
        listeners_close(s);
        if (!loop_free(s->loop))
            diag(DIAG_ERROR, "net", "an event loop has not come to its end");
        file_close(&s->listeners.spare);
        free(s->slots);
    }
    tls_close(server->tls);
    clients_fini(&server->unlimited);
    free(server);
}

enum status
server_open(struct server **server, const struct server_options *options,
            struct problem *why)
{
    unsigned n = options->threads ? options->threads : 1;
    struct server *s = memory_new(1, sizeof(*s) + n * sizeof(s->services[0]));
    struct lookup_answer addresses;
    enum status rc = STATUS_OK;
    struct rlimit files;
    char text[16];

    *server = NULL;
    if (!s)
        return problem_memory(why);
    s->options = *options;
    s->n_services = n;
    snprintf(text, sizeof(text), "%u", 4 * n);
    setenv("UV_THREADPOOL_SIZE", text, 0);
    s->port = options->port;
    /* Connections leave a tenth of the descriptors to the broker. */
    s->fd_end = INT_MAX;
    if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur <= INT_MAX)
        s->fd_end = (int)(files.rlim_cur - files.rlim_cur / 10);
    clients_init(&s->unlimited, 100);
    s->clients = options->clients ? options->clients : &s->unlimited;
    if (options->clients &&
        clients_limit_of_each(options->clients, CLIENT_CONNECTIONS) >
            (uint64_t)s->fd_end / 2)
        clients_limit_each(options->clients, CLIENT_CONNECTIONS,
                           (uint64_t)s->fd_end / 2);
    if (options->tls_cert)
        rc = tls_open(&s->tls, options->tls_cert, options->tls_key, why);
    if (!rc)
        rc = addresses_find(&addresses, options->host, &s->port, why);
    for (unsigned i = 0; i < n && !rc; i++)
        rc = service_init(&s->services[i], s, i, &addresses, why);
    for (unsigned i = 0; i < n && !rc; i++) {
        char name[16];

        snprintf(name, sizeof(name), "net %u", s->services[i].number);
        rc = thread_start(&s->services[i].thread, name, run_service,
                          &s->services[i], why);
    }
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
    struct lookup_answer addresses;
    struct rlimit files;

    if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur < least)
        return problem(why, STATUS_IO,
                       "%llu files may be open, and at least %llu must be: see "
                       "ulimit -n",
                       (unsigned long long)files.rlim_cur,
                       (unsigned long long)least);
    return addresses_find(&addresses, options->host, &(unsigned){options->port},
                          why);
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

const struct thread *
server_most_silent(const struct server *server)
{
    const struct thread *silent = &server->services[0].thread;

    for (unsigned i = 1; i < server->n_services; i++) {
        const struct thread *other = &server->services[i].thread;

        if (thread_silent_us(other) > thread_silent_us(silent))
            silent = other;
    }
    return silent;
}

void
server_stop_accepting(struct server *server)
{
    atomic_store(&server->is_stopping, true);
    for (unsigned i = 0; i < server->n_services; i++)
        service_wake(&server->services[i]);
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
