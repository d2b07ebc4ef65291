#include "broker/hub/remote_commands.h"

#include <endian.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "broker/hub/remote_command.h"
#include "broker/net/response.h"

/* The longest wait for an order or an answer, and between two looks at how far
 * the copy is. */
#define WAIT_US 1000000
#define LOOK_US 10000

/* Commands of this broker that may be on their way at once. */
#define SENT_MAX 1000

/* A command of this broker, or of another one. */
struct errand {
    struct list node;
    struct remote_commands *all;
    struct command *command;
    uint64_t id;     /* of the order */
    uint64_t n;      /* the last record of the broker that was asked */
    int64_t over_us; /* steady: when the client no longer waits */
};

struct remote_commands {
    struct remote_commands_options options;
    struct streams *streams; /* the thread's */
    struct thread thread;
    int wake_fd;
    _Atomic(uint64_t) term; /* 0: this broker does not own */

    pthread_mutex_t mutex;   /* guards the three below */
    struct list sent;        /* of this broker: to be ordered */
    struct list ended;       /* of others: to be answered */
    unsigned n;              /* of this broker: all */
    atomic_bool is_stopping; /* set under the mutex: nobody sends any more */

    /* The thread's */
    struct list ordered; /* of this broker, with an id */
    struct list early;   /* of others: this copy is behind theirs */
};

static void
wake(struct remote_commands *c)
{
    (void)eventfd_write(c->wake_fd, 1);
}

/* Takes the first one of a list that several threads use. */
static struct errand *
take_first(struct remote_commands *c, struct list *of)
{
    struct errand *e;

    pthread_mutex_lock(&c->mutex);
    e = list_take(of, offsetof(struct errand, node));
    pthread_mutex_unlock(&c->mutex);
    return e;
}

/* This broker's */

enum status
remote_commands_send(struct remote_commands *c, struct command *command,
                     struct problem *why)
{
    const struct cluster_seat *seat = c->options.seat;
    struct errand *e = memory_new(1, sizeof(*e));
    enum status rc = STATUS_OK;

    *e = (struct errand){.all = c,
                         .command = command,
                         .n = seat->place(seat->user),
                         .over_us =
                             clock_steady_us() + ORDER_US +
                             (command_calls(command) ? c->options.call_us : 0)};
    pthread_mutex_lock(&c->mutex);
    if (c->is_stopping)
        rc = problem(why, STATUS_STOPPED, "the broker is ending");
    else if (c->n == SENT_MAX)
        rc = problem(why, STATUS_BUSY,
                     "too many requests are on their way to the broker that "
                     "owns the hub");
    if (!rc) {
        c->n++;
        list_append(&c->sent, &e->node);
    }
    pthread_mutex_unlock(&c->mutex);
    if (rc)
        free(e);
    else
        wake(c);
    return rc;
}

/* Gives a command of this broker back. */
static void
end_sent(struct errand *e)
{
    struct remote_commands *c = e->all;

    pthread_mutex_lock(&c->mutex);
    c->n--;
    pthread_mutex_unlock(&c->mutex);
    e->command->done(e->command);
    free(e);
}

static void
fail_sent(struct errand *e, enum status rc, const char *text)
{
    e->command->http = 503;
    e->command->status = problem(&e->command->why, rc, "%s", text);
    end_sent(e);
}

static void
order_sent(struct remote_commands *c)
{
    struct errand *e;

    while ((e = take_first(c, &c->sent))) {
        struct problem why;
        struct buf bytes;
        uint64_t n;
        enum status rc;

        buf_init(&bytes, INT32_MAX);
        n = htobe64(e->n);
        buf_add(&bytes, &n, sizeof(n));
        remote_command_write(&bytes, e->command);
        rc = bytes.failed ? problem_memory(&why)
                          : c->streams->ops->order(
                                c->streams, buf_slice(&bytes), &e->id, &why);
        if (bytes.data) /* there may be a secret */
            explicit_bzero(bytes.data, bytes.size);
        buf_fini(&bytes);
        if (rc)
            fail_sent(e, STATUS_UNREACHABLE, "the cluster cannot be reached");
        else
            list_append(&c->ordered, &e->node);
    }
}

static void
on_answer(uint64_t id, struct slice bytes, void *user)
{
    struct remote_commands *c = user;
    struct list *after;
    struct errand *e;

    list_each (e, after, &c->ordered, node) {
        if (e->id != id)
            continue;
        list_remove(&e->node);
        remote_command_read_outcome(e->command, bytes);
        end_sent(e);
        return;
    }
}

/* Those of others */

/* On any thread: the command has its outcome. */
static void
on_run(struct command *command)
{
    struct errand *e = command->user;
    struct remote_commands *c = e->all;

    pthread_mutex_lock(&c->mutex);
    list_append(&c->ended, &e->node);
    pthread_mutex_unlock(&c->mutex);
    wake(c);
}

static void
refuse_order(struct errand *e, enum status rc, const struct problem *why)
{
    e->command->status = rc;
    e->command->http = response_status_of(rc);
    e->command->why = *why;
    e->command->user = e;
    on_run(e->command);
}

/* Takes an order. Within a call of the streams, so it is run, or answered,
 * later. */
static void
on_order(uint64_t id, struct slice bytes, void *user)
{
    struct remote_commands *c = user;
    struct errand *e = memory_new(1, sizeof(*e));
    struct problem why = {""};
    enum status rc;

    *e = (struct errand){
        .all = c, .id = id, .over_us = clock_steady_us() + ORDER_US};
    if (bytes.size >= sizeof(e->n)) {
        memcpy(&e->n, bytes.data, sizeof(e->n));
        e->n = be64toh(e->n);
        slice_skip(&bytes, sizeof(e->n));
    }
    rc = remote_command_read(&e->command, bytes, c->options.tokens, &why);
    if (!rc) {
        e->command->done = on_run;
        e->command->user = e;
        list_append(&c->early, &e->node);
        return;
    }
    e->command = command_new(COMMAND_LIST, 0);
    refuse_order(e, rc, &why);
}

/* Runs the orders, one after the other, for which this copy is far enough. */
static void
run_early(struct remote_commands *c)
{
    const struct cluster_seat *seat = c->options.seat;
    struct errand *e;

    list_until_empty (e, &c->early, node) {
        bool is_early = e->n > seat->place(seat->user);
        struct problem why = {"the owner of the hub is changing"};
        enum status rc = STATUS_BUSY;

        if (is_early && clock_steady_us() < e->over_us)
            return;
        list_remove(&e->node);
        if (is_early)
            problem_set(&why, "the owner of the hub is behind this broker");
        else
            rc = c->options.run(e->command, c->options.user);
        if (rc)
            refuse_order(e, rc, &why);
    }
}

static void
answer_ended(struct remote_commands *c)
{
    struct errand *e;

    while ((e = take_first(c, &c->ended))) {
        struct buf bytes;
        struct problem why;

        buf_init(&bytes, SIZE_MAX);
        remote_command_write_outcome(&bytes, e->command);
        if (!bytes.failed)
            (void)c->streams->ops->answer(c->streams, e->id, buf_slice(&bytes),
                                          &why);
        buf_fini(&bytes);
        command_free(e->command);
        free(e);
    }
}

/* The thread */

static void
run_remote(struct thread *t)
{
    struct remote_commands *c = t->user;
    struct lease lease = {.term = 0};
    struct problem why;
    struct list *after;
    struct errand *e;
    eventfd_t ignored;

    /* is_stopping is true from before the wake that ends the last wait. */
    while (thread_wait(t, 0) && !atomic_load(&c->is_stopping)) {
        order_sent(c);
        lease.term = atomic_load_explicit(&c->term, memory_order_relaxed);
        if (lease.term > 0)
            (void)c->streams->ops->take(c->streams, &lease, on_order, c, &why);
        run_early(c);
        answer_ended(c);
        if (!list_is_empty(&c->ordered))
            (void)c->streams->ops->answers(c->streams, on_answer, c, &why);
        list_each (e, after, &c->ordered, node) {
            if (clock_steady_us() < e->over_us)
                continue;
            list_remove(&e->node);
            fail_sent(e, STATUS_UNREACHABLE,
                      "no broker of the cluster owns the hub at the moment");
        }
        c->streams->ops->wait(c->streams, c->wake_fd,
                              list_is_empty(&c->early) ? WAIT_US : LOOK_US);
        (void)eventfd_read(c->wake_fd, &ignored);
    }
}

void
remote_commands_own(struct remote_commands *c, uint64_t term)
{
    atomic_store_explicit(&c->term, term, memory_order_relaxed);
    wake(c);
}

enum status
remote_commands_open(struct remote_commands **made,
                     const struct remote_commands_options *options,
                     struct problem *why)
{
    struct remote_commands *c = memory_new(1, sizeof(*c));
    enum status rc;

    c->options = *options;
    c->streams = options->seat->open_streams(options->seat->user);
    pthread_mutex_init(&c->mutex, NULL);
    list_init(&c->sent);
    list_init(&c->ended);
    list_init(&c->ordered);
    list_init(&c->early);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = c->wake_fd < 0
             ? problem(why, STATUS_IO, "no descriptor is left")
             : thread_start(&c->thread, "remote", run_remote, c, why);
    if (rc)
        remote_commands_close(c);
    else
        *made = c;
    return rc;
}

void
remote_commands_stop(struct remote_commands *c)
{
    struct errand *e;

    pthread_mutex_lock(&c->mutex);
    c->is_stopping = true;
    pthread_mutex_unlock(&c->mutex);
    wake(c);
    thread_stop(&c->thread);
    while ((e = take_first(c, &c->sent)))
        fail_sent(e, STATUS_STOPPED, "the broker is ending");
    list_drain (e, &c->ordered, node)
        fail_sent(e, STATUS_STOPPED, "the broker is ending");
    list_drain (e, &c->early, node) {
        refuse_order(e, STATUS_STOPPED,
                     &(struct problem){"the broker is ending"});
    }
    answer_ended(c);
}

void
remote_commands_close(struct remote_commands *c)
{
    if (!c)
        return;
    remote_commands_stop(c);
    c->streams->ops->close(c->streams);
    if (c->wake_fd >= 0)
        close(c->wake_fd);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}
