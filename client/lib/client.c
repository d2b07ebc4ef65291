/*
 * client.c - the handle: its life, its problem, its stop, its loop.
 */
#include "client/lib/client.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/lib/curl_loop.h"
#include "client/lib/lws_loop.h"

static pthread_once_t is_set_up = PTHREAD_ONCE_INIT;

void
client_begin(struct td_client *client)
{
    problem_clear(&client->problem);
}

enum td_status
td_status_of(enum status rc)
{
    switch (rc) {
    case STATUS_OK:
        return TD_OK;
    case STATUS_STOPPED:
        return TD_STOPPED;
    case STATUS_INVALID:
        return TD_INVALID;
    case STATUS_REFUSED:
    case STATUS_DENIED:
    case STATUS_FORBIDDEN:
    case STATUS_NOT_FOUND:
    case STATUS_LIMITED:
        return TD_REFUSED;
    case STATUS_GONE:
        return TD_GONE;
    case STATUS_UNREACHABLE:
    case STATUS_LATE:
        return TD_UNREACHABLE;
    case STATUS_MALFORMED:
    case STATUS_TOO_LARGE:
    case STATUS_UNSUPPORTED:
    case STATUS_CONFLICT:
        return TD_BROKEN;
    case STATUS_MEMORY:
        return TD_MEMORY;
    case STATUS_AGAIN:
    case STATUS_RUNNING:
    case STATUS_BUSY:
    case STATUS_IO:
        return TD_IO;
    case STATUS_DIFFERENT:
        return TD_DIFFERENT;
    case STATUS_REWOUND:
        return TD_REWOUND;
    }
    return TD_IO;
}

void
client_report(const struct list_report *report,
              void (*on_report)(const struct td_report *report, void *user),
              void *user)
{
    struct td_report to = {list_report_n(report, LIST_MENDED),
                           list_report_n(report, LIST_LEFT_OUT), NULL, NULL};
    struct buf mended = {.max = SIZE_MAX / 2}, left_out = {.max = SIZE_MAX / 2};

    if (!on_report || (!to.n_mended && !to.n_left_out))
        return;
    list_report_write(&mended, report, LIST_MENDED);
    list_report_write(&left_out, report, LIST_LEFT_OUT);
    BUF_ADD(&mended, "\0");
    BUF_ADD(&left_out, "\0");
    to.mended = to.n_mended && !mended.failed ? mended.data : NULL;
    to.left_out = to.n_left_out && !left_out.failed ? left_out.data : NULL;
    on_report(&to, user);
    buf_fini(&mended);
    buf_fini(&left_out);
}

enum td_status
client_end(struct td_client *client, enum status rc)
{
    uint64_t count;

    if (rc == STATUS_STOPPED)
        while (read(client->stop_fd, &count, sizeof(count)) < 0 &&
               errno == EINTR)
            ;
    if (rc == STATUS_OK || rc == STATUS_STOPPED)
        client->problem.text[0] = '\0';
    return td_status_of(rc);
}

enum status
client_take_problem(struct td_client *client, const struct problem *failure)
{
    client->problem = *failure;
    return failure->rc;
}

static void
look_for_idle(struct td_client *client)
{
    client->is_idle = true;
    for (const struct running *r = client->running; r; r = r->next)
        client->is_idle = client->is_idle && r->is_idle;
}

void
client_runs(struct td_client *client, struct running *running)
{
    running->next = client->running;
    client->running = running;
    look_for_idle(client);
}

void
client_leaves(struct td_client *client, struct running *running)
{
    struct running **at = &client->running;

    while (*at && *at != running)
        at = &(*at)->next;
    if (*at)
        *at = running->next;
    look_for_idle(client);
}

void
client_idles(struct td_client *client, struct running *running, bool is_idle)
{
    running->is_idle = is_idle;
    look_for_idle(client);
}

enum status
client_add_source(struct td_client *client, const char *url)
{
    char scheme[CURL_LOOP_SCHEME_SIZE], host[CURL_LOOP_HOST_SIZE];

    if (!url || text_set_has(&client->found, slice_of(url)) ||
        !curl_loop_read_url(url, scheme, host) ||
        address_policy_add_source(&client->reach, host))
        return STATUS_OK;
    return problem_memory(&client->problem);
}

enum status
client_end_turn(struct td_client *client, enum status rc)
{
    if (rc)
        client_fail(client, rc, "%s",
                    rc == STATUS_INVALID
                        ? "called from a callback of the same handle"
                        : "");
    return rc;
}

enum status
client_until(struct td_client *client, const bool *is_over,
             const struct problem *why)
{
    enum status rc =
        client_end_turn(client, handle_loop_until(client->loop, is_over));

    return rc || !why ? rc : client_take_problem(client, why);
}

static void
on_waited(void *user)
{
    *(bool *)user = true;
}

enum status
client_wait(struct td_client *client, unsigned ms, bool *is_over)
{
    bool is_late = false;
    bool *is_end = is_over ? is_over : &is_late;
    struct timer timer;
    enum status rc;

    timer_init(&timer, client->loop, on_waited, is_end);
    timer_start(&timer, ms);
    rc = handle_loop_until(client->loop, is_end);
    timer_stop(&timer);
    return rc;
}

static void
set_up_libraries(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
    lws_set_log_level(0, NULL);
}

unsigned
td_version(void)
{
    return TD_VERSION;
}

struct td_client *
td_open(void)
{
    struct td_client *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    pthread_once(&is_set_up, set_up_libraries);
    client->is_idle = true;
    client->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (client->stop_fd >= 0)
        client->loop = handle_loop_new(client->stop_fd);
    if (client->loop) {
        client->web = curl_loop_new(client);
        host_places_init(&client->places, client->loop);
    }
    if (!client->web) {
        td_close(client);
        return NULL;
    }
    return client;
}

void
td_close(struct td_client *client)
{
    if (!client)
        return;
    while (client->running)
        client->running->close(client->running->owner);
    curl_loop_free(client->web);
    lws_loop_free(client->sockets);
    if (client->loop)
        host_places_fini(&client->places);
    handle_loop_free(client->loop);
    servers_fini(&client->servers);
    text_set_fini(&client->found);
    text_set_fini(&client->accepts);
    address_policy_fini(&client->reach);
    free(client->trust);
    free(client->checkpoint_path);
    free(client->checkpoint_kept);
    if (client->stop_fd >= 0)
        close(client->stop_fd);
    free(client);
}

enum td_status
td_header(struct td_client *client, const char *url, const char *header)
{
    client_begin(client);
    return client_end(client, servers_add_header(&client->servers, url, header,
                                                 &client->problem));
}

static enum td_status
set_token(struct td_client *client, const char *url, const char *text,
          const char *path)
{
    char scheme[CURL_LOOP_SCHEME_SIZE], host[CURL_LOOP_HOST_SIZE];
    enum status rc;

    client_begin(client);
    /* Over http a proxy would read the token; over https it only carries
     * bytes. */
    if (curl_loop_read_url(url, scheme, host) && !strcmp(scheme, "http") &&
        curl_loop_proxy(scheme, host))
        rc = client_fail(client, STATUS_INVALID,
                         "the token for %.200s would go through the proxy that "
                         "the environment names; except the host by no_proxy",
                         host);
    else
        rc = servers_set_token(&client->servers, url, text, path,
                               &client->problem);
    return client_end(client, rc);
}

enum td_status
td_client_set_token(struct td_client *client, const char *url,
                    const char *token)
{
    return set_token(client, url, token, NULL);
}

enum td_status
td_client_set_token_file(struct td_client *client, const char *url,
                         const char *path)
{
    return set_token(client, url, NULL, path);
}

enum td_status
td_client_set_certificate(struct td_client *client, const char *url,
                          const char *cert, const char *key)
{
    client_begin(client);
    return client_end(client,
                      servers_set_certificate(&client->servers, url, cert, key,
                                              &client->problem));
}

void
td_allow_private(struct td_client *client)
{
    client->reach.allows_all = true;
}

void
td_on_progress(struct td_client *client,
               void (*on_progress)(const struct td_progress *p, void *user),
               void *user)
{
    client->on_progress = on_progress;
    client->progress_user = user;
}

void
client_progress(struct td_client *client, enum td_progress_what what,
                uint64_t done, uint64_t all)
{
    const struct td_progress progress = {what, done, all};

    if (client->on_progress)
        client->on_progress(&progress, client->progress_user);
}

void
td_limit(struct td_client *client, const struct td_limits *limits)
{
    static const struct td_limits none;

    client->room.limits = limits ? *limits : none;
}

enum td_status
td_accept_history(struct td_client *client, const char *mark)
{
    bool is_new;

    client_begin(client);
    if (text_set_add(&client->accepts, slice_of(mark), &is_new))
        return client_end(client, problem_memory(&client->problem));
    return client_end(client, STATUS_OK);
}

const char *
td_problem(const struct td_client *client)
{
    return client->problem.text;
}

unsigned
td_answered(const struct td_client *client, unsigned *retry_after_s)
{
    if (retry_after_s)
        *retry_after_s = client->problem.retry_after_s;
    return client->problem.http_status;
}

/* Only a write: a signal handler may interrupt any code, malloc too. The write
 * cannot block, and a failure after 2^64-2 stops does not matter. */
void
td_stop(struct td_client *client)
{
    const uint64_t one = 1;
    int saved = errno;
    ssize_t n = write(client->stop_fd, &one, sizeof(one));

    (void)n;
    errno = saved;
}

int
td_fd(const struct td_client *client)
{
    return handle_loop_fd(client->loop);
}

int
td_timeout_ms(const struct td_client *client)
{
    return handle_loop_timeout_ms(client->loop);
}

enum td_status
td_service(struct td_client *client)
{
    client_begin(client);
    return client_end(
        client, client_end_turn(client, handle_loop_service(client->loop)));
}

enum td_status
td_run(struct td_client *client)
{
    client_begin(client);
    return client_end(client, client_until(client, &client->is_idle, NULL));
}
