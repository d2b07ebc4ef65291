/*
 * fake_broker.c - scenes on raw sockets.
 */
#include "tests/support/fake_broker.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "proto/arena.h"
#include "tests/test.h"

#define SCENES_MAX  48
#define STEPS_MAX   32
#define REQUEST_MAX 65536

enum step_kind {
    STEP_FRAME,
    STEP_RAW,
    STEP_WAIT,
    STEP_EXPECT,
    STEP_COMMAND,
    STEP_HOLD
};

struct step {
    enum step_kind kind;
    unsigned char first_byte; /* of a frame: FIN and opcode */
    struct slice bytes;
};

enum scene_kind {
    SCENE_NOTHING,
    SCENE_SILENCE,
    SCENE_ANSWER,
    SCENE_PLAIN,
    SCENE_STREAM
};

struct scene {
    enum scene_kind kind;
    bool is_describing; /* the request is none that is counted */
    unsigned status;
    const char *type;
    const char *body;
    struct step steps[STEPS_MAX];
    size_t n_steps;
    bool is_reset;           /* at its end */
    struct slice with;       /* sent together with the handshake */
    struct slice extensions; /* in it; or none */
    /* Under the lock: */
    char request[REQUEST_MAX]; /* written before, and by STEP_COMMAND */
    bool has_request;
    int fd; /* -1: not open; only the thread changes it */
};

struct fake_broker {
    int listener;
    unsigned port;
    char url[64];
    char description[512];
    struct scene *scenes[SCENES_MAX];
    size_t n_scenes;
    struct arena texts; /* to be sent */
    pthread_t thread;
    bool is_started;
    sem_t go;
    _Atomic unsigned n_rests;
    pthread_mutex_t lock;
};

/* Its orders */

static struct slice
copy(struct fake_broker *b, struct slice text)
{
    char *to = arena_take(&b->texts, text.size + 1);

    assert_non_null(to);
    if (text.size > 0)
        memcpy(to, text.data, text.size);
    to[text.size] = '\0';
    return (struct slice){to, text.size};
}

static struct scene *
add_scene(struct fake_broker *b, enum scene_kind kind)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    assert_true(b->n_scenes < SCENES_MAX);
    scene->kind = kind;
    scene->fd = -1;
    b->scenes[b->n_scenes++] = scene;
    return scene;
}

static void
add_step(struct fake_broker *b, enum step_kind kind, unsigned char first_byte,
         struct slice bytes)
{
    struct scene *scene = b->scenes[b->n_scenes - 1];

    assert_true(scene->kind == SCENE_STREAM || scene->kind == SCENE_PLAIN);
    assert_true(scene->n_steps < STEPS_MAX);
    if (bytes.data)
        bytes = copy(b, bytes);
    scene->steps[scene->n_steps++] = (struct step){kind, first_byte, bytes};
}

void
fake_answer(struct fake_broker *b, unsigned status, const char *type,
            const char *body)
{
    struct scene *scene = add_scene(b, SCENE_ANSWER);

    scene->status = status;
    scene->type = copy(b, slice_of(type)).data;
    scene->body = copy(b, slice_of(body)).data;
}

void
fake_describe(struct fake_broker *b)
{
    snprintf(b->description, sizeof(b->description),
             "{\"name\":\"news\",\"links\":["
             "{\"rel\":\"urn:tidings:1:memory\",\"href\":\"%s/changes\"},"
             "{\"rel\":\"urn:tidings:1:stream\",\"href\":\"%s/stream\"}]}",
             b->url, b->url);
    fake_answer(b, 200, "application/json", b->description);
    b->scenes[b->n_scenes - 1]->is_describing = true;
}

void
fake_stream(struct fake_broker *b)
{
    add_scene(b, SCENE_STREAM);
}

void
fake_stream_with(struct fake_broker *b, struct slice frames)
{
    add_scene(b, SCENE_STREAM)->with = copy(b, frames);
}

void
fake_stream_extended(struct fake_broker *b, const char *extensions)
{
    add_scene(b, SCENE_STREAM)->extensions = copy(b, slice_of(extensions));
}

void
fake_plain(struct fake_broker *b)
{
    add_scene(b, SCENE_PLAIN);
}

void
fake_nothing(struct fake_broker *b)
{
    add_scene(b, SCENE_NOTHING);
}

void
fake_silence(struct fake_broker *b)
{
    add_scene(b, SCENE_SILENCE);
}

void
fake_send(struct fake_broker *b, struct slice message)
{
    add_step(b, STEP_FRAME, 0x81, message);
}

void
fake_send_part(struct fake_broker *b, struct slice part, bool is_first,
               bool is_last)
{
    unsigned char opcode = is_first ? 1 : 0;

    add_step(b, STEP_FRAME, (unsigned char)(opcode | (is_last ? 0x80 : 0)),
             part);
}

void
fake_send_binary(struct fake_broker *b, struct slice message)
{
    add_step(b, STEP_FRAME, 0x82, message);
}

void
fake_ping(struct fake_broker *b)
{
    add_step(b, STEP_FRAME, 0x89, SLICE("are you there"));
}

void
fake_close(struct fake_broker *b, unsigned code, const char *reason)
{
    char farewell[128];
    int size = snprintf(farewell, sizeof(farewell), "%c%c%s", (int)(code >> 8),
                        (int)(code & 0xff), reason);

    assert_true((size_t)size < sizeof(farewell));
    add_step(b, STEP_FRAME, 0x88, (struct slice){farewell, (size_t)size});
}

void
fake_raw(struct fake_broker *b, struct slice bytes)
{
    add_step(b, STEP_RAW, 0, bytes);
}

void
fake_reset(struct fake_broker *b)
{
    b->scenes[b->n_scenes - 1]->is_reset = true;
}

void
fake_wait(struct fake_broker *b)
{
    add_step(b, STEP_WAIT, 0, SLICE(""));
}

void
fake_expect(struct fake_broker *b, size_t size)
{
    add_step(b, STEP_EXPECT, 0, (struct slice){NULL, size});
}

void
fake_command(struct fake_broker *b)
{
    add_step(b, STEP_COMMAND, 0, SLICE(""));
}

void
fake_hold(struct fake_broker *b)
{
    add_step(b, STEP_HOLD, 0, SLICE(""));
}

/* Doing it; a client that went away ends a scene early, which is no fault. */

static bool
send_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;

    while (size) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static bool
read_all(int fd, void *to, size_t size)
{
    return size == 0 || recv(fd, to, size, MSG_WAITALL) == (ssize_t)size;
}

/* Reads a masked frame of one piece, up to 65,535 bytes. */
static bool
receive_command(struct fake_broker *b, struct scene *scene)
{
    unsigned char head[2], more[2], mask[4];
    char text[65536];
    size_t size, used;

    if (!read_all(scene->fd, head, 2))
        return false;
    size = head[1] & 0x7f;
    if (size == 126) {
        if (!read_all(scene->fd, more, 2))
            return false;
        size = (size_t)more[0] << 8 | more[1];
    }
    if (!read_all(scene->fd, mask, 4) || !read_all(scene->fd, text, size))
        return false;
    for (size_t i = 0; i < size; i++)
        text[i] ^= (char)mask[i % 4];
    pthread_mutex_lock(&b->lock);
    used = strlen(scene->request);
    snprintf(scene->request + used, REQUEST_MAX - used, "%.*s\n", (int)size,
             text);
    pthread_mutex_unlock(&b->lock);
    return true;
}

static bool
receive_all(int fd, size_t size)
{
    char bytes[4096];

    while (size) {
        ssize_t n =
            recv(fd, bytes, size < sizeof(bytes) ? size : sizeof(bytes), 0);

        if (n <= 0)
            return false;
        size -= (size_t)n;
    }
    return true;
}

static bool
send_frame(int fd, unsigned char first_byte, struct slice payload)
{
    unsigned char head[10] = {first_byte};
    size_t size = 2;

    if (payload.size < 126)
        head[1] = (unsigned char)payload.size;
    else if (payload.size < 65536) {
        head[1] = 126;
        head[2] = (unsigned char)(payload.size >> 8);
        head[3] = (unsigned char)payload.size;
        size = 4;
    } else {
        head[1] = 127;
        for (int i = 0; i < 8; i++)
            head[2 + i] =
                (unsigned char)((uint64_t)payload.size >> (56 - 8 * i));
        size = 10;
    }
    return send_all(fd, head, size) && send_all(fd, payload.data, payload.size);
}

static size_t
body_size_of(const char *head)
{
    const char *at = strcasestr(head, "\r\nContent-Length:");

    return at ? strtoul(at + 17, NULL, 10) : 0;
}

static void
read_request(struct fake_broker *b, struct scene *scene)
{
    char *text = calloc(1, REQUEST_MAX);
    size_t size = 0;
    const char *end = NULL;

    while (text && size < REQUEST_MAX - 1) {
        ssize_t n = recv(scene->fd, text + size, REQUEST_MAX - 1 - size, 0);

        if (n <= 0)
            break;
        size += (size_t)n;
        end = strstr(text, "\r\n\r\n");
        if (end && size >= (size_t)(end + 4 - text) + body_size_of(text))
            break;
    }
    pthread_mutex_lock(&b->lock);
    if (text)
        memcpy(scene->request, text, REQUEST_MAX);
    scene->has_request = true;
    pthread_mutex_unlock(&b->lock);
    free(text);
}

static void
answer(const struct scene *scene)
{
    char head[512];
    int size = snprintf(head, sizeof(head),
                        "HTTP/1.1 %u Scripted\r\nContent-Type: %s\r\n"
                        "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                        scene->status, scene->type, strlen(scene->body));

    if (send_all(scene->fd, head, (size_t)size))
        send_all(scene->fd, scene->body, strlen(scene->body));
}

/* A header's value, from its first to its last character. */
static struct slice
header_of(const char *request, const char *name)
{
    const char *at = strcasestr(request, name);

    if (!at)
        return SLICE("");
    at += strlen(name);
    at += strspn(at, ": ");
    return (struct slice){at, strcspn(at, "\r\n")};
}

static bool
shake_hands(const struct scene *scene)
{
    struct slice key = header_of(scene->request, "\r\nSec-WebSocket-Key");
    struct slice protocol =
        header_of(scene->request, "\r\nSec-WebSocket-Protocol");
    unsigned char digest[SHA_DIGEST_LENGTH];
    char accept[64];
    char text[8192];
    int size =
        snprintf(text, sizeof(text), "%.*s258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
                 SLICE_ARG(key));

    SHA1((unsigned char *)text, (size_t)size, digest);
    EVP_EncodeBlock((unsigned char *)accept, digest, sizeof(digest));
    size = snprintf(text, sizeof(text),
                    "HTTP/1.1 101 Switching Protocols\r\n"
                    "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                    "Sec-WebSocket-Accept: %s\r\n"
                    "Sec-WebSocket-Protocol: %.*s\r\n"
                    "%s%.*s\r\n%s",
                    accept, SLICE_ARG(protocol),
                    scene->extensions.size ? "Sec-WebSocket-Extensions: " : "",
                    SLICE_ARG(scene->extensions),
                    scene->extensions.size ? "\r\n" : "");
    assert_true((size_t)size + scene->with.size <= sizeof(text));
    if (scene->with.size)
        memcpy(text + size, scene->with.data, scene->with.size);
    size += (int)scene->with.size;
    return send_all(scene->fd, text, (size_t)size);
}

/* Returns whether the connection is to stay. */
static bool
play_stream(struct fake_broker *b, struct scene *scene)
{
    if (scene->kind == SCENE_STREAM && !shake_hands(scene))
        return false;
    for (size_t i = 0; i < scene->n_steps; i++) {
        const struct step *step = &scene->steps[i];
        bool is_good = true;

        switch (step->kind) {
        case STEP_FRAME:
            is_good = send_frame(scene->fd, step->first_byte, step->bytes);
            break;
        case STEP_RAW:
            is_good = send_all(scene->fd, step->bytes.data, step->bytes.size);
            break;
        case STEP_WAIT:
            b->n_rests++;
            sem_wait(&b->go);
            break;
        case STEP_EXPECT:
            is_good = receive_all(scene->fd, step->bytes.size);
            break;
        case STEP_COMMAND:
            is_good = receive_command(b, scene);
            break;
        case STEP_HOLD:
            b->n_rests++;
            return true;
        }
        if (!is_good)
            return false;
    }
    return false;
}

/* Reads to the client's end first: closing on unread bytes would take away what
 * the client has not read yet. */
static void
hang_up(struct fake_broker *b, struct scene *scene)
{
    static const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    char unread[4096];

    if (scene->is_reset) {
        setsockopt(scene->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    } else {
        shutdown(scene->fd, SHUT_WR);
        while (recv(scene->fd, unread, sizeof(unread), 0) > 0)
            ;
    }
    pthread_mutex_lock(&b->lock);
    close(scene->fd);
    scene->fd = -1;
    pthread_mutex_unlock(&b->lock);
}

static void *
play(void *user)
{
    struct fake_broker *b = user;

    for (size_t i = 0; i < b->n_scenes; i++) {
        struct scene *scene = b->scenes[i];
        bool stays = false;
        int fd = accept(b->listener, NULL, NULL);

        if (fd < 0)
            return NULL;
        pthread_mutex_lock(&b->lock);
        scene->fd = fd;
        pthread_mutex_unlock(&b->lock);
        if (scene->kind != SCENE_NOTHING)
            read_request(b, scene);
        if (scene->kind == SCENE_ANSWER)
            answer(scene);
        if (scene->kind == SCENE_STREAM || scene->kind == SCENE_PLAIN)
            stays = play_stream(b, scene);
        if (!stays)
            hang_up(b, scene);
    }
    shutdown(b->listener, SHUT_RDWR); /* nobody waits in the queue */
    return NULL;
}

/* Its life */

/* At a port of its own of that address; NULL: there is no such address. */
static struct fake_broker *
new_at(const struct sockaddr *address, socklen_t size, const char *host)
{
    struct fake_broker *b = calloc(1, sizeof(*b));
    struct sockaddr_storage own;

    assert_non_null(b);
    b->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (b->listener < 0 || bind(b->listener, address, size)) {
        if (b->listener >= 0)
            close(b->listener);
        free(b);
        return NULL;
    }
    assert_int_equal(getsockname(b->listener, (struct sockaddr *)&own, &size),
                     0);
    b->port = ntohs(own.ss_family == AF_INET6
                        ? ((struct sockaddr_in6 *)&own)->sin6_port
                        : ((struct sockaddr_in *)&own)->sin_port);
    snprintf(b->url, sizeof(b->url), "http://%s:%u/sets/news", host, b->port);
    arena_init(&b->texts, SIZE_MAX / 2);
    sem_init(&b->go, 0, 0);
    pthread_mutex_init(&b->lock, NULL);
    return b;
}

struct fake_broker *
fake_broker_new(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct fake_broker *b;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    b = new_at((struct sockaddr *)&address, sizeof(address), "127.0.0.1");
    assert_non_null(b);
    return b;
}

struct fake_broker *
fake_broker_new_ipv6(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_addr = IN6ADDR_LOOPBACK_INIT};

    return new_at((struct sockaddr *)&address, sizeof(address), "[::1]");
}

void
fake_broker_start(struct fake_broker *b)
{
    assert_int_equal(listen(b->listener, SCENES_MAX), 0);
    assert_int_equal(pthread_create(&b->thread, NULL, play, b), 0);
    b->is_started = true;
}

/* Ends all waits of the thread: after a test that failed, too. */
static void
end_play(struct fake_broker *b)
{
    shutdown(b->listener, SHUT_RDWR);
    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < b->n_scenes; i++) {
        if (b->scenes[i]->fd >= 0)
            shutdown(b->scenes[i]->fd, SHUT_RDWR);
        for (size_t k = 0; k < STEPS_MAX; k++)
            sem_post(&b->go);
    }
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
}

void
fake_broker_free(struct fake_broker *b)
{
    if (b->is_started)
        end_play(b);
    close(b->listener);
    for (size_t i = 0; i < b->n_scenes; i++) {
        if (b->scenes[i]->fd >= 0)
            close(b->scenes[i]->fd);
        free(b->scenes[i]);
    }
    arena_fini(&b->texts);
    sem_destroy(&b->go);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

const char *
fake_broker_url(const struct fake_broker *b)
{
    return b->url;
}

unsigned
fake_broker_port(const struct fake_broker *b)
{
    return b->port;
}

void
fake_go(struct fake_broker *b)
{
    sem_post(&b->go);
}

unsigned
fake_n_rests(struct fake_broker *b)
{
    return b->n_rests;
}

/* The caller has the lock. */
static const char *
find_request(struct fake_broker *b, size_t i)
{
    for (size_t k = 0; k < b->n_scenes; k++)
        if (!b->scenes[k]->is_describing && i-- == 0)
            return b->scenes[k]->has_request ? b->scenes[k]->request : "";
    return "";
}

const char *
fake_request(struct fake_broker *b, size_t i)
{
    const char *text;

    pthread_mutex_lock(&b->lock);
    text = find_request(b, i);
    pthread_mutex_unlock(&b->lock);
    return text;
}

bool
fake_has_read(struct fake_broker *b, size_t i, const char *text)
{
    bool has;

    pthread_mutex_lock(&b->lock);
    has = strstr(find_request(b, i), text);
    pthread_mutex_unlock(&b->lock);
    return has;
}
