#include "tests/support/origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/patience.h"
#include "tests/test.h"

#define HEAD_MAX 8192

struct origin {
    int listener;
    char path[200], url[300];
    pthread_t thread;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    int fd; /* of the request under way, or -1 */
    bool is_ending, holds;
    char links[2000], type[300], etag[100], location[300];
    char *body;
    size_t body_size;
    unsigned status, times;
    unsigned n_heads, n_gets;
    char last[HEAD_MAX];
};

static void
send_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        bytes += n;
        size -= (size_t)n;
    }
}

/* A request without a body. */
static bool
receive(int fd, char head[HEAD_MAX])
{
    size_t size = 0;

    head[0] = '\0';
    while (size < HEAD_MAX - 1 && !strstr(head, "\r\n\r\n")) {
        ssize_t n = recv(fd, head + size, HEAD_MAX - 1 - size, 0);

        if (n <= 0)
            return false;
        size += (size_t)n;
        head[size] = '\0';
    }
    return true;
}

static unsigned
status_now(struct origin *o, const char *head)
{
    char condition[150];
    unsigned status = o->status;

    if (o->times > 0 && --o->times == 0)
        o->status = 200;
    snprintf(condition, sizeof(condition), "If-None-Match: %s\r\n", o->etag);
    if (status == 200 && o->etag[0] && strstr(head, condition))
        status = 304;
    return status;
}

/* The mutex is held. */
static void
answer(struct origin *o, int fd)
{
    char text[4000], location[400] = "";
    bool is_head = !strncmp(o->last, "HEAD ", 5);
    unsigned status;
    int n;

    if (is_head)
        o->n_heads++;
    else
        o->n_gets++;
    pthread_cond_broadcast(&o->changed);
    while (o->holds && !o->is_ending)
        pthread_cond_wait(&o->changed, &o->mutex);
    if (o->location[0])
        snprintf(location, sizeof(location), "Location: %s\r\n", o->location);
    status = status_now(o, o->last);
    n = snprintf(text, sizeof(text),
                 "HTTP/1.1 %u So\r\nConnection: close\r\n%s%s%s%s%s%s%s%s%s%s"
                 "Content-Length: %zu\r\n\r\n",
                 status, location, o->links[0] ? "Link: " : "", o->links,
                 o->links[0] ? "\r\n" : "", o->type[0] ? "Content-Type: " : "",
                 o->type, o->type[0] ? "\r\n" : "", o->etag[0] ? "ETag: " : "",
                 o->etag, o->etag[0] ? "\r\n" : "",
                 status == 200 ? o->body_size : 0);
    send_all(fd, text, (size_t)n);
    if (!is_head && status == 200)
        send_all(fd, o->body, o->body_size);
}

static void *
run(void *user)
{
    struct origin *o = user;
    bool is_ending = false;

    while (!is_ending) {
        char head[HEAD_MAX];
        int fd = accept(o->listener, NULL, NULL);
        bool is_whole;

        pthread_mutex_lock(&o->mutex);
        o->fd = fd;
        is_ending = o->is_ending;
        pthread_mutex_unlock(&o->mutex);
        is_whole = fd >= 0 && !is_ending && receive(fd, head);
        pthread_mutex_lock(&o->mutex);
        if (is_whole) {
            memcpy(o->last, head, sizeof(o->last));
            answer(o, fd);
        }
        is_ending = o->is_ending;
        o->fd = -1;
        pthread_mutex_unlock(&o->mutex);
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

struct origin *
origin_new(const char *path)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    struct origin *o = calloc(1, sizeof(*o));

    assert_non_null(o);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    o->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(o->listener >= 0);
    assert_int_equal(
        bind(o->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(o->listener, 64), 0);
    assert_int_equal(
        getsockname(o->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(o->path, sizeof(o->path), "%s", path);
    snprintf(o->url, sizeof(o->url), "http://127.0.0.1:%u%s",
             ntohs(address.sin_port), path);
    o->status = 200;
    o->fd = -1;
    pthread_mutex_init(&o->mutex, NULL);
    pthread_cond_init(&o->changed, NULL);
    assert_int_equal(pthread_create(&o->thread, NULL, run, o), 0);
    return o;
}

void
origin_free(struct origin *o)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->mutex);
    o->is_ending = true;
    if (o->fd >= 0)
        shutdown(o->fd, SHUT_RDWR); /* wakes a read that gets nothing */
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->mutex);
    shutdown(o->listener, SHUT_RDWR); /* accept returns */
    pthread_join(o->thread, NULL);
    close(o->listener);
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->mutex);
    free(o->body);
    free(o);
}

const char *
origin_url(const struct origin *o)
{
    return o->url;
}

void
origin_links(struct origin *o, const char *links)
{
    pthread_mutex_lock(&o->mutex);
    snprintf(o->links, sizeof(o->links), "%s", links ? links : "");
    pthread_mutex_unlock(&o->mutex);
}

void
origin_names(struct origin *o, const char *self, const char *hub)
{
    char links[1000];

    snprintf(links, sizeof(links), "<%s>; rel=\"self\", <%s>; rel=\"hub\"",
             self, hub);
    origin_links(o, links);
}

void
origin_content(struct origin *o, const char *type, const char *etag,
               struct slice body)
{
    pthread_mutex_lock(&o->mutex);
    snprintf(o->type, sizeof(o->type), "%s", type ? type : "");
    snprintf(o->etag, sizeof(o->etag), "%s", etag ? etag : "");
    free(o->body);
    o->body = slice_dup(body);
    o->body_size = body.size;
    pthread_mutex_unlock(&o->mutex);
}

void
origin_answers(struct origin *o, unsigned status, const char *location,
               unsigned times)
{
    pthread_mutex_lock(&o->mutex);
    o->status = status;
    o->times = times;
    snprintf(o->location, sizeof(o->location), "%s", location ? location : "");
    pthread_mutex_unlock(&o->mutex);
}

void
origin_hold(struct origin *o, bool holds)
{
    pthread_mutex_lock(&o->mutex);
    o->holds = holds;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->mutex);
}

static unsigned
count(const struct origin *o, const char *method)
{
    return strcmp(method, "HEAD") ? o->n_gets : o->n_heads;
}

unsigned
origin_count(struct origin *o, const char *method)
{
    unsigned n;

    pthread_mutex_lock(&o->mutex);
    n = count(o, method);
    pthread_mutex_unlock(&o->mutex);
    return n;
}

void
origin_await(struct origin *o, const char *method, unsigned n)
{
    struct timespec until;
    int late = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&o->mutex);
    while (count(o, method) < n && !late)
        late = pthread_cond_clockwait(&o->changed, &o->mutex, CLOCK_MONOTONIC,
                                      &until);
    pthread_mutex_unlock(&o->mutex);
    if (late)
        fail_msg("%s had %u requests with %s, not %u", o->url,
                 origin_count(o, method), method, n);
}

bool
origin_was_asked(struct origin *o, const char *line)
{
    bool was;

    pthread_mutex_lock(&o->mutex);
    was = strstr(o->last, line) != NULL;
    pthread_mutex_unlock(&o->mutex);
    return was;
}
