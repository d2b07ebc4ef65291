#include "tests/bench/protocol.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"

static _Noreturn void
refuse(const char *data, size_t size)
{
    char text[512];
    size_t n = size < sizeof(text) - 1 ? size : sizeof(text) - 1;

    for (size_t i = 0; i < n; i++)
        text[i] = (char)(isprint((unsigned char)data[i]) ? data[i] : ' ');
    text[n] = '\0';
    bench_fail("a post was answered with\n%s", text);
}

/* The size of the first line with its end; 0: it is not whole. */
static size_t
line_of(const char *data, size_t size)
{
    const char *end = memchr(data, '\n', size);

    return end ? (size_t)(end - data) + 1 : 0;
}

/* HTTP */

static size_t
http_put_post(FILE *to, const struct post *post)
{
    fprintf(to,
            "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Type: %s\r\n"
            "Content-Length: %zu\r\n\r\n",
            post->path, post->port, post->type, post->body_size);
    fwrite(post->body, 1, post->body_size, to);
    return 1;
}

static size_t
http_answer(const char *data, size_t size, bool *is_counted)
{
    const char *end = strstr(data, "\r\n\r\n"), *length;
    size_t whole;

    *is_counted = true;
    if (!end)
        return 0;
    whole = (size_t)(end + 4 - data);
    length = strcasestr(data, "content-length:");
    if (length && length < end)
        whole += strtoul(length + strlen("content-length:"), NULL, 10);
    if (strncmp(data, "HTTP/1.1 2", 10) != 0)
        refuse(data, size);
    return whole <= size ? whole : 0;
}

/* Redis: streams keep, channels send. */

static size_t
redis_put_post(FILE *to, const struct post *post)
{
    if (post->purpose == PURPOSE_SEND) {
        fprintf(to, "*3\r\n$7\r\nPUBLISH\r\n$5\r\nbench\r\n$%zu\r\n",
                post->body_size);
        fwrite(post->body, 1, post->body_size, to);
        fputs("\r\n", to);
        return 1;
    }
    for (size_t i = 0; i < post->entries; i++) {
        fprintf(to,
                "*5\r\n$4\r\nXADD\r\n$5\r\nbench\r\n$1\r\n*\r\n$5\r\nentry\r\n"
                "$%zu\r\n",
                post->entry_size);
        fwrite(post->entry, 1, post->entry_size, to);
        fputs("\r\n", to);
    }
    return post->entries;
}

static unsigned
redis_subscribe(FILE *to)
{
    fputs("*2\r\n$9\r\nSUBSCRIBE\r\n$5\r\nbench\r\n", to);
    return 1;
}

static size_t
redis_answer(const char *data, size_t size, bool *is_counted)
{
    size_t whole = line_of(data, size);
    bool is_part;

    *is_counted = true;
    if (!whole)
        return 0;
    if (data[0] == '-')
        refuse(data, size);
    if (data[0] == '$')
        whole += strtoul(data + 1, NULL, 10) + 2;
    if (data[0] == '*')
        for (unsigned long n = strtoul(data + 1, NULL, 10); n > 0; n--) {
            size_t part = whole < size ? redis_answer(data + whole,
                                                      size - whole, &is_part)
                                       : 0;

            if (!part)
                return 0;
            whole += part;
        }
    return whole <= size ? whole : 0;
}

/* NATS: JetStream keeps, and answers each record with a message; the core
 * sends, and a PONG says that it has got the post. */

#define NATS_CONNECT "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n"

static unsigned
nats_greet(FILE *to, const struct post *post)
{
    static const char stream[] =
        "{\"name\":\"bench\",\"subjects\":[\"bench\"],\"storage\":\"file\","
        "\"retention\":\"limits\",\"num_replicas\":1}";

    fputs(NATS_CONNECT, to);
    if (post->purpose == PURPOSE_SEND) {
        fputs("PING\r\n", to);
        return 1;
    }
    fprintf(to, "SUB _INBOX.%u 1\r\n", post->number);
    fprintf(to, "PUB $JS.API.STREAM.CREATE.bench _INBOX.%u %zu\r\n%s\r\n",
            post->number, sizeof(stream) - 1, stream);
    return 1;
}

static size_t
nats_put_post(FILE *to, const struct post *post)
{
    if (post->purpose == PURPOSE_SEND) {
        fprintf(to, "PUB bench %zu\r\n", post->body_size);
        fwrite(post->body, 1, post->body_size, to);
        fputs("\r\nPING\r\n", to);
        return 1;
    }
    for (size_t i = 0; i < post->entries; i++) {
        fprintf(to, "PUB bench _INBOX.%u %zu\r\n", post->number,
                post->entry_size);
        fwrite(post->entry, 1, post->entry_size, to);
        fputs("\r\n", to);
    }
    return post->entries;
}

static unsigned
nats_subscribe(FILE *to)
{
    fputs(NATS_CONNECT "SUB bench 1\r\nPING\r\n", to);
    return 1;
}

static size_t
nats_answer(const char *data, size_t size, bool *is_counted)
{
    size_t line = line_of(data, size), whole = line;
    bool is_message = strncmp(data, "MSG ", 4) == 0;

    *is_counted = is_message || strncmp(data, "PONG", 4) == 0;
    if (!line)
        return 0;
    if (strncmp(data, "-ERR", 4) == 0)
        refuse(data, size);
    if (is_message) {
        const char *last = memrchr(data, ' ', line);

        whole += strtoul(last, NULL, 10) + 2;
        if (whole <= size && memmem(data + line, whole - line, "\"error\"", 7))
            refuse(data, whole);
    }
    return whole <= size ? whole : 0;
}

/* MQTT 3.1.1: QoS 1 from publishers, QoS 0 to subscribers. */

/* The head of a packet: its type, and its size in groups of 7 bits. */
static void
mqtt_put_head(FILE *to, int type, size_t size)
{
    fputc(type, to);
    for (; size >= 128; size >>= 7)
        fputc((int)(size & 127) | 128, to);
    fputc((int)size, to);
}

static void
mqtt_put_connect(FILE *to)
{
    static const char connect[] = "\0\4MQTT\4\2\0\0\0"; /* clean, no name */

    mqtt_put_head(to, 0x10, sizeof(connect));
    fwrite(connect, 1, sizeof(connect), to);
}

static unsigned
mqtt_greet(FILE *to, const struct post *post)
{
    (void)post;
    mqtt_put_connect(to);
    return 1;
}

static void
mqtt_put_publish(FILE *to, unsigned id, const char *payload, size_t size)
{
    static const char topic[] = {0, 5, 'b', 'e', 'n', 'c', 'h'};

    mqtt_put_head(to, 0x32, sizeof(topic) + 2 + size);
    fwrite(topic, 1, sizeof(topic), to);
    fputc((int)(id >> 8 & 255), to);
    fputc((int)(id & 255), to);
    fwrite(payload, 1, size, to);
}

static size_t
mqtt_put_post(FILE *to, const struct post *post)
{
    if (post->purpose == PURPOSE_SEND) {
        mqtt_put_publish(to, 1, post->body, post->body_size);
        return 1;
    }
    for (size_t i = 0; i < post->entries; i++)
        mqtt_put_publish(to, (unsigned)i + 1, post->entry, post->entry_size);
    return post->entries;
}

static unsigned
mqtt_subscribe(FILE *to)
{
    static const char subscribe[] = {0, 1, 0, 5, 'b', 'e', 'n', 'c', 'h', 0};

    mqtt_put_connect(to);
    mqtt_put_head(to, 0x82, sizeof(subscribe));
    fwrite(subscribe, 1, sizeof(subscribe), to);
    return 2;
}

static size_t
mqtt_answer(const char *data, size_t size, bool *is_counted)
{
    size_t whole = 0, at = 0;
    unsigned shift = 0;

    *is_counted = true;
    do {
        if (++at >= size)
            return 0;
        whole |= (size_t)(data[at] & 127) << shift;
        shift += 7;
    } while (data[at] & 128 && shift < 28);
    whole += at + 1;
    if (whole <= size && data[0] == 0x20 && data[3] != 0)
        refuse(data, whole); /* CONNACK with a reason */
    return whole <= size ? whole : 0;
}

/* PostgreSQL: a row for each entry, a transaction for each post: COPY, or a
 * prepared INSERT if there is only one. */

static void
postgresql_put_number(FILE *to, uint32_t number, int n_bytes)
{
    while (n_bytes-- > 0)
        fputc((int)(number >> n_bytes * 8 & 255), to);
}

/* A message: its type (0 for the first one of a connection), its size, `size`
 * bytes. */
static void
postgresql_put(FILE *to, int type, const void *data, size_t size)
{
    if (type)
        fputc(type, to);
    postgresql_put_number(to, (uint32_t)size + 4, 4);
    if (size > 0)
        fwrite(data, 1, size, to);
}

/* A string with its '\0'. */
#define postgresql_put_text(to, type, text) \
    postgresql_put(to, type, text, sizeof(text))

static unsigned
postgresql_greet(FILE *to, const struct post *post)
{
    static const char parse[] =
        "insert\0INSERT INTO bench (entry) VALUES ($1)\0\0"; /* no types */

    (void)post;
    postgresql_put_text(to, 0, "\0\3\0\0user\0postgres\0database\0postgres\0");
    postgresql_put_text(to, 'Q',
                        "CREATE TABLE IF NOT EXISTS bench "
                        "(number bigserial PRIMARY KEY, entry text NOT NULL)");
    postgresql_put(to, 'P', parse, sizeof(parse));
    postgresql_put(to, 'S', NULL, 0);
    return 3;
}

static size_t
postgresql_put_post(FILE *to, const struct post *post)
{
    static const char bind[] = "\0insert\0\0\0"; /* a 1 follows: one value */

    if (post->entries == 1) {
        fputc('B', to);
        postgresql_put_number(
            to, (uint32_t)(4 + sizeof(bind) + 1 + 4 + post->entry_size + 2), 4);
        fwrite(bind, 1, sizeof(bind), to);
        fputc(1, to);
        postgresql_put_number(to, (uint32_t)post->entry_size, 4);
        fwrite(post->entry, 1, post->entry_size, to);
        postgresql_put_number(to, 0, 2);
        postgresql_put(to, 'E', "\0\0\0\0", 5);
        postgresql_put(to, 'S', NULL, 0);
        return 1;
    }
    postgresql_put_text(to, 'Q', "COPY bench (entry) FROM STDIN");
    fputc('d', to);
    postgresql_put_number(
        to, (uint32_t)(4 + post->entries * (post->entry_size + 1)), 4);
    for (size_t i = 0; i < post->entries; i++) {
        fwrite(post->entry, 1, post->entry_size, to);
        fputc('\n', to);
    }
    postgresql_put(to, 'c', NULL, 0);
    return 1;
}

/* Only "ready for the next query" is waited for: it follows the commit. */
static size_t
postgresql_answer(const char *data, size_t size, bool *is_counted)
{
    size_t whole = 1;

    *is_counted = data[0] == 'Z';
    if (size < 5)
        return 0;
    for (int i = 1; i <= 4; i++)
        whole += (size_t)(unsigned char)data[i] << (4 - i) * 8;
    if (whole <= size && data[0] == 'E')
        refuse(data, whole);
    return whole <= size ? whole : 0;
}

static const struct protocol protocols[] = {
    {.scheme = "http", .put_post = http_put_post, .answer = http_answer},
    {.scheme = "https", .put_post = http_put_post, .answer = http_answer},
    {.scheme = "redis",
     .put_post = redis_put_post,
     .answer = redis_answer,
     .subscribe = redis_subscribe},
    {.scheme = "nats",
     .greet = nats_greet,
     .put_post = nats_put_post,
     .answer = nats_answer,
     .subscribe = nats_subscribe},
    {.scheme = "mqtt",
     .greet = mqtt_greet,
     .put_post = mqtt_put_post,
     .answer = mqtt_answer,
     .subscribe = mqtt_subscribe},
    {.scheme = "postgresql",
     .greet = postgresql_greet,
     .put_post = postgresql_put_post,
     .answer = postgresql_answer},
};

const struct protocol *
protocol_of(const char *scheme)
{
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++)
        if (strcmp(protocols[i].scheme, scheme) == 0)
            return &protocols[i];
    bench_fail("there is no protocol \"%s\"", scheme);
}
