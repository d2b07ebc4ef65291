#include "broker/mqtt/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* The asking thread and the resolver's own thread share it; the last one frees
 * it. */
struct resolve {
    char host[256];
    int fd;
    atomic_int n_holders;
    atomic_bool is_done; /* stored last, with release order: a thread that sees
                            it sees the answer */
    struct resolve_answer answer;
    int error; /* EAI_...; 0: success */
};

static void
release_holder(struct resolve *r)
{
    if (atomic_fetch_sub_explicit(&r->n_holders, 1, memory_order_acq_rel) > 1)
        return;
    if (r->fd >= 0)
        close(r->fd);
    free(r);
}

/* Looks the name up, and stores the answer. With AI_NUMERICHOST in `flags` this
 * asks no name server. */
static void
look_up(struct resolve *r, int flags)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;

    r->error = getaddrinfo(r->host, NULL, &hints, &found);
    if (r->error)
        return;
    for (struct addrinfo *a = found; a && r->answer.n < RESOLVE_MAX;
         a = a->ai_next)
        if (!getnameinfo(
                a->ai_addr, a->ai_addrlen, r->answer.addresses[r->answer.n],
                sizeof(r->answer.addresses[0]), NULL, 0, NI_NUMERICHOST))
            r->answer.n++;
    freeaddrinfo(found);
    if (r->answer.n == 0)
        r->error = EAI_NONAME;
}

static void
post_answer(struct resolve *r)
{
    uint64_t one = 1;

    atomic_store_explicit(&r->is_done, true, memory_order_release);
    while (write(r->fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

static void *
run_look_up(void *argument)
{
    struct resolve *r = argument;

    pthread_setname_np(pthread_self(), "mqtt-resolve");
    look_up(r, 0);
    post_answer(r);
    release_holder(r);
    return NULL;
}

enum status
resolve_begin(struct resolve **resolve, const char *host, struct problem *why)
{
    struct resolve *r = calloc(1, sizeof(*r));
    pthread_t id;

    *resolve = NULL;
    if (!r)
        return problem_memory(why);
    snprintf(r->host, sizeof(r->host), "%s", host);
    atomic_init(&r->n_holders, 1);
    atomic_init(&r->is_done, false);
    r->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (r->fd < 0)
        goto fail;

    look_up(r, AI_NUMERICHOST);
    if (!r->error) {
        post_answer(r);
    } else {
        atomic_fetch_add_explicit(&r->n_holders, 1, memory_order_relaxed);
        /* Inherits the signal mask of a thread of thread.h: no signal comes
         * here. */
        errno = pthread_create(&id, NULL, run_look_up, r);
        if (errno) {
            atomic_fetch_sub_explicit(&r->n_holders, 1, memory_order_relaxed);
            goto fail;
        }
        pthread_detach(id);
    }
    *resolve = r;
    return STATUS_OK;

fail:
    problem_errno(why, "cannot look up", host);
    release_holder(r);
    return STATUS_IO;
}

int
resolve_fd(const struct resolve *r)
{
    return r->fd;
}

enum status
resolve_take(struct resolve *r, struct resolve_answer *answer,
             struct problem *why)
{
    if (!atomic_load_explicit(&r->is_done, memory_order_acquire))
        return STATUS_RUNNING;
    if (r->error)
        return problem(why, STATUS_NOT_FOUND, "no address is known for %s: %s",
                       r->host, gai_strerror(r->error));
    *answer = r->answer;
    return STATUS_OK;
}

void
resolve_end(struct resolve *r)
{
    if (r)
        release_holder(r);
}
