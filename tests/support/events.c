#include "tests/support/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

/* No message is larger, whatever --message-bytes says. */
#define DATA_MAX ((size_t)64 << 20)

/* Connections */

static void
assert_header(const struct events *e, const char *name, const char *value)
{
    char found[100] = "";

    wire_header(&e->answer, name, found, sizeof(found));
    assert_string_equal(found, value);
}

static void
connect_again(struct events *e, const char *last_id)
{
    e->wire = e->is_narrow ? wire_connect_narrow("127.0.0.1", e->port)
                           : wire_connect("127.0.0.1", e->port);
    assert_non_null(e->wire);
    assert_true(wire_send_format(
        e->wire,
        "GET %s HTTP/1.%d\r\nHost: 127.0.0.1:%u\r\n"
        "Accept: text/event-stream\r\nCache-Control: no-store\r\n%s%s%s\r\n",
        e->path, !e->is_1_0, e->port, last_id ? "Last-Event-ID: " : "",
        last_id ? last_id : "", last_id ? "\r\n" : ""));
    assert_true(wire_answer_head(e->wire, &e->answer));
    if (e->answer.status != 200)
        fail_msg("no event stream at %s: %s", e->path, e->answer.head);
    assert_header(e, "Content-Type", "text/event-stream");
    assert_header(e, "Cache-Control", "no-store");
    assert_header(e, "X-Accel-Buffering", "no");
    assert_header(e, "Transfer-Encoding", e->is_1_0 ? "" : "chunked");
    assert_header(e, "Content-Length", "");
    assert_header(e, "Connection", "close");
    e->chunk_left = 0;
    e->is_whole = false;
}

static void
init(struct events *e, unsigned port, const char *path)
{
    *e = (struct events){.port = port};
    e->is_filtered = strstr(path, "change=") || strstr(path, "prefix=") ||
                     strstr(path, "type=") || strstr(path, "tag=");
    snprintf(e->path, sizeof(e->path), "%s", path);
    buf_init(&e->data, DATA_MAX);
}

void
events_open(struct events *e, unsigned port, const char *path,
            const char *last_id)
{
    init(e, port, path);
    connect_again(e, last_id);
}

void
events_open_narrow(struct events *e, unsigned port, const char *path)
{
    init(e, port, path);
    e->is_narrow = true;
    connect_again(e, NULL);
}

void
events_open_1_0(struct events *e, unsigned port, const char *path)
{
    init(e, port, path);
    e->is_1_0 = true;
    connect_again(e, NULL);
}

void
events_close(struct events *e)
{
    wire_close(e->wire);
    buf_fini(&e->data);
    notice_free(&e->notice);
}

void
events_again(struct events *e, bool is_abort)
{
    char id[sizeof(e->last_id)];

    if (is_abort)
        wire_abort(e->wire);
    else
        wire_close(e->wire);
    strcpy(id, e->last_id);
    connect_again(e, id[0] ? id : NULL);
}

/* Bytes of the body */

/* "fff8\r\n"; false: the last chunk. */
static bool
begin_chunk(struct events *e)
{
    char header[20];
    size_t n = 0;

    while (n < 2 || memcmp(header + n - 2, "\r\n", 2)) {
        assert_true(n < sizeof(header) - 1);
        if (!wire_read(e->wire, header + n, 1))
            return false;
        n++;
    }
    header[n - 2] = '\0';
    assert_int_equal(strspn(header, "0123456789abcdef"), n - 2);
    e->chunk_left = strtoull(header, NULL, 16);
    assert_true(n + e->chunk_left + 2 <= EVENTS_CHUNK_MAX);
    if (e->chunk_left == 0) {
        assert_true(wire_read(e->wire, header, 2));
        assert_memory_equal(header, "\r\n", 2);
        assert_true(wire_is_ended(e->wire));
        e->is_whole = true;
    }
    return e->chunk_left > 0;
}

static bool
read_byte(struct events *e, char *byte)
{
    char end[2];

    if (e->is_1_0)
        return wire_read(e->wire, byte, 1);
    if (e->chunk_left == 0 && !begin_chunk(e))
        return false;
    if (!wire_read(e->wire, byte, 1))
        return false;
    if (--e->chunk_left == 0) {
        if (!wire_read(e->wire, end, 2))
            return false;
        assert_memory_equal(end, "\r\n", 2);
    }
    return true;
}

/* Events: HTML section 9.2.6, as far as the broker makes use of it. */

static bool
read_line(struct events *e, struct buf *line)
{
    char byte = 0;

    buf_clear(line);
    while (read_byte(e, &byte)) {
        if (byte == '\n') {
            buf_add(line, "", 1);
            return true;
        }
        assert_true(byte != '\r' && byte != '\0');
        buf_add(line, &byte, 1);
    }
    return false;
}

static const char *
value_of(const struct buf *line, const char *name)
{
    size_t n = strlen(name);

    return strncmp(line->data, name, n) ? NULL : line->data + n;
}

bool
events_read(struct events *e)
{
    struct buf line;
    char id[sizeof(e->last_id)] = "";
    bool has_data = false, is_whole = false;
    const char *value;

    buf_init(&line, DATA_MAX);
    e->name[0] = '\0';
    while (!is_whole && read_line(e, &line)) {
        if ((value = value_of(&line, "id: "))) {
            snprintf(id, sizeof(id), "%s", value);
        } else if ((value = value_of(&line, "event: "))) {
            snprintf(e->name, sizeof(e->name), "%s", value);
        } else if ((value = value_of(&line, "retry: "))) {
            e->retry_ms = (unsigned)strtoul(value, NULL, 10);
        } else if ((value = value_of(&line, "data: "))) {
            assert_false(has_data);
            has_data = true;
            buf_clear(&e->data);
            buf_add_text(&e->data, value);
        } else {
            assert_string_equal(line.data, "");
            is_whole = has_data; /* else it counts for nothing */
        }
    }
    if (is_whole && id[0])
        strcpy(e->last_id, id);
    buf_fini(&line);
    return is_whole;
}

/* Messages */

static void
take_message(struct events *e)
{
    struct notice before = e->notice;
    char position[64];

    notice_read(&e->notice, NOTICE_JSON, buf_slice(&e->data));
    if (e->is_filtered)
        notice_check_filtered(&e->notice);
    else
        notice_check(&e->notice);
    snprintf(position, sizeof(position), "%s-%" PRIu64, e->notice.epoch,
             e->notice.last);
    assert_string_equal(e->last_id, position);
    assert_string_equal(e->name, e->notice.n ? "changes" : "heartbeat");
    if (e->has_notice)
        notice_check_chain(&before, &e->notice);
    else
        assert_int_equal(e->notice.n, 0); /* the first is a heartbeat */
    e->has_notice = true;
    notice_free(&before);
}

const struct notice *
events_next(struct events *e)
{
    if (!events_read(e))
        fail_msg("the answer has ended");
    if (strcmp(e->name, "changes") && strcmp(e->name, "heartbeat"))
        fail_msg("instead of a message: %s: %.*s", e->name,
                 SLICE_ARG(buf_slice(&e->data)));
    take_message(e);
    return &e->notice;
}

void
events_until(struct events *e, uint64_t last)
{
    while (!e->has_notice || e->notice.last < last)
        events_next(e);
    assert_int_equal(e->notice.last, last);
}

void
events_end(struct events *e, const char *name)
{
    char last[sizeof(e->name)] = "";

    while (events_read(e))
        memcpy(last, e->name, sizeof(last));
    memcpy(e->name, last, sizeof(last));
    assert_string_equal(e->name, name);
    assert_true(e->is_whole);
    buf_add(&e->data, "", 1);
}
