#include "broker/hub/remote_commands.h"

#include <sys/eventfd.h>

#include "base/thread.h"
#include "broker/hub/hub_commands.h"
#include "broker/net/response.h"
#include "broker/sources/hub_db.h"

/* Bytes */

#define VERSION 1

#define FLAG_RELAY  1
#define FLAG_LOCAL  2
#define FLAG_SIMPLE 4
#define FLAG_BITS   8

/* The memory of a command beside its texts, for what the reading of a form
 * keeps: three times the form (handle_hub.c). */
#define KEPT(size) (3 * (size_t)(size))

/* Fields on their way: written to `to`, or read off `from`. A missing one is
 * empty and sets `is_bad`. */
struct fields {
    struct buf *to; /* NULL: they are read */
    struct slice from;
    bool is_bad;
};

static void
pass_field(struct fields *f, struct slice *field)
{
    uint64_t size = 0;

    if (f->to) {
        buf_add_big_endian(f->to, field->size, 4);
        buf_add_slice(f->to, *field);
        return;
    }
    f->is_bad |=
        !slice_take_big_endian(&f->from, &size, 4) || size > f->from.size;
    *field = (struct slice){f->from.data, f->is_bad ? 0 : size};
    slice_skip(&f->from, field->size);
}

static void
pass_number(struct fields *f, uint64_t *number)
{
    uint64_t big = htobe64(*number);
    struct slice field = {(const char *)&big, sizeof(big)};

    pass_field(f, &field);
    f->is_bad |= field.size != sizeof(big);
    *number = 0;
    if (!f->is_bad)
        (void)!slice_take_big_endian(&field, number, sizeof(*number));
}

/* A text that must fit into `size`, terminated. */
static void
pass_text(struct fields *f, char *text, size_t size)
{
    struct slice field = slice_of(text);

    pass_field(f, &field);
    if (!f->to && !slice_copy(text, size, field))
        f->is_bad = true;
}

static void
pass_kept(struct fields *f, struct command *command, struct slice *text)
{
    pass_field(f, text);
    if (!f->to)
        *text = command_keep(command, *text);
}

/* Begins to read. */
static struct fields
read_fields(struct slice bytes)
{
    bool is_bad = bytes.size == 0 || *bytes.data != VERSION;

    return (struct fields){.from = slice_from(bytes, !is_bad),
                           .is_bad = is_bad};
}

static enum status
refuse_version(struct problem *why)
{
    return problem(why, STATUS_INVALID,
                   "another broker of the cluster has another version");
}

/* A token's principal is the one of this broker, which ends with the token.
 * Another one has an end of its own. */
static enum status
pass_principal(struct fields *f, struct command *command, struct tokens *tokens,
               struct problem *why)
{
    const struct principal *p = command->principal;
    uint64_t is_there = p != NULL, observe, admin, ends_us = 0;
    char name[PRINCIPAL_NAME_MAX + 1] = "";
    struct rights rights = {.observe = false};

    pass_number(f, &is_there);
    if (!is_there)
        return STATUS_OK;
    if (p) {
        snprintf(name, sizeof(name), "%s", p->name);
        rights = p->rights;
        ends_us = (uint64_t)load_relaxed(&p->authority.ends_us);
    }
    observe = rights.observe;
    admin = rights.admin;
    pass_text(f, name, sizeof(name));
    pass_text(f, rights.publish, sizeof(rights.publish));
    pass_text(f, rights.subscribe, sizeof(rights.subscribe));
    pass_text(f, rights.manage, sizeof(rights.manage));
    pass_number(f, &observe);
    pass_number(f, &admin);
    pass_number(f, &ends_us);
    rights.observe = observe;
    rights.admin = admin;
    if (f->to || f->is_bad || !tokens)
        return STATUS_OK;
    command->principal =
        principal_is_outside(name)
            ? principal_new(slice_of(name), &rights, (int64_t)ends_us)
            : tokens_owner(tokens, slice_of(name), clock_now_us());
    return command->principal ? STATUS_OK
                              : problem(why, STATUS_FORBIDDEN,
                                        "the broker that owns this part of the "
                                        "hub does not know this "
                                        "token");
}

/* What follows the kind. */
static enum status
pass_command(struct fields *f, struct command *c, struct slice *form,
             struct slice *body, struct tokens *tokens, struct problem *why)
{
    uint64_t flags =
        (c->is_relay ? FLAG_RELAY : 0) | (c->is_local ? FLAG_LOCAL : 0) |
        (c->is_simple ? FLAG_SIMPLE : 0) | (uint64_t)(c->part + 1) << FLAG_BITS;

    pass_number(f, &flags);
    c->is_relay = flags & FLAG_RELAY;
    c->is_local = flags & FLAG_LOCAL;
    c->is_simple = flags & FLAG_SIMPLE;
    c->part = (int)(flags >> FLAG_BITS & UINT8_MAX) - 1;
    f->is_bad |= c->part >= HUB_PARTS;
    pass_number(f, &c->id);
    pass_text(f, c->name, sizeof(c->name));
    pass_text(f, c->from, sizeof(c->from));
    pass_field(f, form);
    pass_kept(f, c, &c->request.callback);
    pass_kept(f, c, &c->after);
    pass_kept(f, c, &c->content_type);
    pass_kept(f, c, &c->links);
    pass_kept(f, c, &c->key);
    pass_field(f, body);
    return pass_principal(f, c, tokens, why);
}

void
remote_command_write(struct buf *to, struct command *command)
{
    struct fields f = {.to = to};
    uint64_t kind = command->kind;
    struct slice form = command->form_text, body = buf_slice(&command->body);

    buf_add(to, &(char){VERSION}, 1);
    pass_number(&f, &kind);
    (void)!pass_command(&f, command, &form, &body, NULL, NULL);
}

/* A form is read again: its text is kept in the body, which has no other
 * use. */
enum status
remote_command_read(struct command **command, struct slice bytes,
                    struct tokens *tokens, struct problem *why)
{
    struct fields f = read_fields(bytes);
    struct slice form = {NULL, 0}, body = {NULL, 0};
    uint64_t kind = 0;
    struct command *c;
    enum status rc;

    pass_number(&f, &kind);
    if (f.is_bad || kind >= COMMAND_KINDS)
        return refuse_version(why);
    c = command_new((enum command_kind)kind, KEPT(bytes.size));
    if (!c)
        return problem_memory(why);
    rc = pass_command(&f, c, &form, &body, tokens, why);
    if (!rc && (f.is_bad || f.from.size > 0))
        rc = refuse_version(why);
    if (c->principal)
        c->authority = authority_ref(&c->principal->authority);
    c->has_after = c->after.size > 0 && form.size == 0;
    buf_add_slice(&c->body, form.size > 0 ? form : body);
    if (!rc && (c->body.failed || c->memory.failed))
        rc = problem_memory(why);
    if (!rc && form.size > 0) {
        c->form_text = buf_slice(&c->body);
        rc = c->is_simple ? command_read_simple(c, c->form_text, why)
                          : command_read_form(c, c->form_text, why);
    }
    if (rc)
        command_free(c);
    else
        *command = c;
    return rc;
}

/* The text is empty before it is read. */
static void
pass_outcome(struct fields *f, struct command *command)
{
    uint64_t status = command->status, http = command->http;
    struct slice text = buf_slice(&command->text);

    pass_number(f, &status);
    pass_number(f, &http);
    pass_text(f, command->why.text, sizeof(command->why.text));
    pass_field(f, &text);
    f->is_bad |= status > STATUS_DENIED || http > 599;
    if (f->to || f->is_bad)
        return;
    buf_add_slice(&command->text, text);
    command->status = (enum status)status;
    command->http = (unsigned)http;
}

void
remote_command_write_outcome(struct buf *to, struct command *command)
{
    struct fields f = {.to = to};

    buf_add(to, &(char){VERSION}, 1);
    pass_outcome(&f, command);
}

void
remote_command_read_outcome(struct command *command, struct slice bytes)
{
    struct fields f = read_fields(bytes);

    buf_clear(&command->text);
    pass_outcome(&f, command);
    if (!f.is_bad)
        return;
    (void)!refuse_version(&command->why);
    command->status = STATUS_IO;
    command->http = response_status_of(STATUS_IO);
}

/* Carrying */

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
    struct command *list; /* NULL; else the rows that answer `command` are a
                             part of this one's */
    unsigned part;
    uint64_t id;     /* of the order */
    uint64_t n;      /* the last record of the broker that was asked */
    int64_t over_us; /* steady: when the client no longer waits */
};

struct remote_commands {
    struct remote_commands_options options;
    struct streams *streams; /* the thread's */
    struct thread thread;
    int wake_fd;
    char leases[HUB_PARTS][16];         /* their names */
    _Atomic(uint64_t) terms[HUB_PARTS]; /* 0: this broker does not own */

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

/* Makes the errands of a command, for the mutex's owner. */
static void
add_errands(struct remote_commands *c, struct command *command, unsigned parts)
{
    const struct cluster_seat *seat = c->options.seat;
    bool is_list = command->kind == COMMAND_LIST && !command->is_relay;

    for (unsigned i = 0; i < HUB_PARTS; i++) {
        struct errand *e;

        if (!(parts >> i & 1))
            continue;
        e = memory_new(1, sizeof(*e));
        *e = (struct errand){
            .all = c,
            .command = is_list ? command_new(COMMAND_LIST, 0) : command,
            .list = is_list ? command : NULL,
            .part = i,
            .n = seat->place(seat->user, NULL),
            .over_us = clock_steady_us() + ORDER_US +
                       (command_calls(command) ? c->options.call_us : 0)};
        command->n_asked++;
        list_append(&c->sent, &e->node);
        c->n++;
    }
}

enum status
remote_commands_send(struct remote_commands *c, struct command *command,
                     unsigned parts, struct problem *why)
{
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&c->mutex);
    if (c->is_stopping)
        rc = problem(why, STATUS_STOPPED, "the broker is ending");
    else if (c->n >= SENT_MAX)
        rc = problem(why, STATUS_BUSY,
                     "too many requests are on their way to the broker that "
                     "owns the hub");
    if (!rc)
        add_errands(c, command, parts);
    pthread_mutex_unlock(&c->mutex);
    if (!rc)
        wake(c);
    return rc;
}

/* Adds the rows of an answer; with the last one the list is whole, or has the
 * first failure. */
static void
collect(struct command *list, struct command *answer)
{
    struct buf rows = list->text;
    struct slice lists[] = {buf_slice(&rows), buf_slice(&answer->text)};

    list->text = (struct buf){.max = SIZE_MAX};
    if (!list->status && !answer->status) {
        list->http = 200;
        hub_lists_merge(&list->text, lists, N_ELEMENTS(lists));
    } else if (!list->status) {
        list->status = answer->status;
        list->http = answer->http;
        list->why = answer->why;
    }
    buf_fini(&rows);
    command_free(answer);
    if (--list->n_asked == 0)
        list->done(list);
}

/* Gives a command of this broker back. */
static void
end_sent(struct errand *e)
{
    struct remote_commands *c = e->all;

    pthread_mutex_lock(&c->mutex);
    c->n--;
    pthread_mutex_unlock(&c->mutex);
    if (e->list)
        collect(e->list, e->command);
    else
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
        struct command *command = e->list ? e->list : e->command;
        struct buf bytes = {.max = INT32_MAX};
        struct problem why;
        enum status rc;

        command->part = (int)e->part;
        buf_add_big_endian(&bytes, e->n, sizeof(e->n));
        remote_command_write(&bytes, command);
        rc = bytes.failed
                 ? problem_memory(&why)
                 : c->streams->ops->order(c->streams, c->leases[e->part],
                                          buf_slice(&bytes), &e->id, &why);
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
    struct errand *e;

    list_walk (e, &c->ordered, node) {
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
    (void)!slice_take_big_endian(&bytes, &e->n, sizeof(e->n));
    rc = remote_command_read(&e->command, bytes, c->options.tokens, &why);
    if (rc)
        e->command = command_new(COMMAND_LIST, 0);
    e->command->done = on_run;
    e->command->user = e;
    if (rc)
        command_answer_now(e->command, rc, &why);
    else
        list_append(&c->early, &e->node);
}

/* Runs the orders for which this copy is far enough. Those of one broker for
 * one part stay in order. */
static void
run_early(struct remote_commands *c)
{
    const struct cluster_seat *seat = c->options.seat;
    struct errand *e;

    list_walk (e, &c->early, node) {
        bool is_behind = e->n > seat->place(seat->user, NULL);
        bool is_early =
            is_behind ||
            (e->command->part >= 0 &&
             !c->options.may_run(c->options.hub, (unsigned)e->command->part));
        struct problem why = {"the owner of this part of the hub is changing"};
        enum status rc = STATUS_BUSY;

        if (is_early && clock_steady_us() < e->over_us)
            continue;
        list_remove(&e->node);
        if (is_behind)
            problem_set(&why,
                        "the owner of this part of the hub is behind this "
                        "broker");
        if (!is_early)
            rc = c->options.run(c->options.hub, e->command);
        if (rc)
            command_answer_now(e->command, rc, &why);
    }
}

static void
answer_ended(struct remote_commands *c)
{
    struct errand *e;

    while ((e = take_first(c, &c->ended))) {
        struct buf bytes = {.max = SIZE_MAX};
        struct problem why;

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

/* The leases that this broker has; false: none. */
static bool
find_leases(struct remote_commands *c, struct lease held[HUB_PARTS],
            struct leases *leases)
{
    bool has_some = false;

    for (unsigned i = 0; i < HUB_PARTS; i++) {
        held[i] = (struct lease){.name = c->leases[i],
                                 .term = load_relaxed(&c->terms[i])};
        leases->all[i] = held[i].term > 0 ? &held[i] : NULL;
        has_some |= held[i].term > 0;
    }
    return has_some;
}

static void
run_remote(struct thread *t)
{
    struct remote_commands *c = t->user;
    struct lease held[HUB_PARTS];
    struct leases leases;
    struct problem why;
    struct errand *e;
    eventfd_t ignored;

    /* is_stopping is true from before the wake that ends the last wait. */
    while (thread_wait(t, 0) && !atomic_load(&c->is_stopping)) {
        order_sent(c);
        if (find_leases(c, held, &leases))
            (void)c->streams->ops->take(c->streams, &leases, on_order, c, &why);
        run_early(c);
        answer_ended(c);
        if (!list_is_empty(&c->ordered))
            (void)c->streams->ops->answers(c->streams, on_answer, c, &why);
        list_walk (e, &c->ordered, node) {
            if (clock_steady_us() < e->over_us)
                continue;
            list_remove(&e->node);
            fail_sent(
                e, STATUS_UNREACHABLE,
                "no broker of the cluster owns this part of the hub at the "
                "moment");
        }
        c->streams->ops->wait(c->streams, c->wake_fd,
                              list_is_empty(&c->early) ? WAIT_US : LOOK_US);
        (void)eventfd_read(c->wake_fd, &ignored);
    }
}

void
remote_commands_own(struct remote_commands *c, unsigned part, uint64_t term)
{
    store_relaxed(&c->terms[part], term);
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
    for (unsigned i = 0; i < HUB_PARTS; i++)
        snprintf(c->leases[i], sizeof(c->leases[i]), "%s/%u",
                 hub_db_file.stream, i);
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
    list_move(&c->ordered, &c->sent); /* nobody adds more */
    list_drain (e, &c->ordered, node)
        fail_sent(e, STATUS_STOPPED, "the broker is ending");
    list_drain (e, &c->early, node) {
        command_answer_now(e->command, STATUS_STOPPED,
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
    file_close(&c->wake_fd);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}
