/*
 * wire_http.c - HTTP/1.1 and WebSocket over a wire.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tests/support/wire_inside.h"

bool
wire_answer_head(struct wire *w, struct wire_answer *a)
{
    int64_t end_ms = wire_end_ms(w);
    size_t size = 0;

    memset(a, 0, sizeof(*a));
    while (size < 4 || memcmp(a->head + size - 4, "\r\n\r\n", 4)) {
        if (size + 1 == sizeof(a->head) ||
            !wire_read_until(w, a->head + size, 1, end_ms))
            return false;
        size++;
    }
    return sscanf(a->head, "HTTP/1.1 %3u ", &a->status) == 1;
}

bool
wire_header(const struct wire_answer *a, const char *name, char *to,
            size_t size)
{
    size_t n = strlen(name);
    const char *line = strstr(a->head, "\r\n");

    for (; line && line[2] != '\r'; line = strstr(line + 2, "\r\n")) {
        const char *at = line + 2;

        if (strncasecmp(at, name, n) || at[n] != ':')
            continue;
        at += n + 1;
        at += strspn(at, " \t");
        snprintf(to, size, "%.*s", (int)strcspn(at, "\r"), at);
        return true;
    }
    return false;
}

bool
wire_answer(struct wire *w, struct wire_answer *a, bool is_head)
{
    char length[32] = "0";
    unsigned long long size = 0;

    if (!wire_answer_head(w, a))
        return false;
    if (!is_head && a->status >= 200 && a->status != 204 && a->status != 304) {
        if (!wire_header(a, "Content-Length", length, sizeof(length)))
            return false;
        size = strtoull(length, NULL, 10);
    }
    a->body = wire_room(w, (size_t)size);
    a->body_size = (size_t)size;
    return a->body && wire_read(w, a->body, a->body_size);
}

bool
wire_request(struct wire *w, const char *method, const char *path,
             const char *headers, const char *body, struct wire_answer *a)
{
    char length[64] = "";

    if (body)
        snprintf(length, sizeof(length), "Content-Length: %zu\r\n",
                 strlen(body));
    return wire_send_format(w, "%s %s HTTP/1.1\r\nHost: %s\r\n%s%s\r\n%s",
                            method, path, w->host, headers ? headers : "",
                            length, body ? body : "") &&
           wire_answer(w, a, !strcmp(method, "HEAD"));
}

bool
wire_upgrade(struct wire *w, const char *path, const char *subprotocols,
             struct wire_answer *a)
{
    /* The key and its answer of RFC 6455 section 1.3. */
    char value[64];

    return wire_send_format(
               w,
               "GET %s HTTP/1.1\r\nHost: %s\r\n"
               "Upgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
               "Sec-WebSocket-Version: 13\r\n%s%s%s\r\n",
               path, w->host, subprotocols ? "Sec-WebSocket-Protocol: " : "",
               subprotocols ? subprotocols : "", subprotocols ? "\r\n" : "") &&
           wire_answer(w, a, false) && a->status == 101 &&
           wire_header(a, "Sec-WebSocket-Accept", value, sizeof(value)) &&
           !strcmp(value, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/* Reads one frame; its payload to offset `at` of the body. */
static bool
read_frame(struct wire *w, struct wire_frame *f, size_t at)
{
    int64_t end_ms = wire_end_ms(w);
    uint8_t head[10];
    uint64_t size = 0;
    size_t more = 0;

    if (!wire_read_until(w, head, 2, end_ms))
        return false;
    f->opcode = (enum wire_opcode)(head[0] & 0x0f);
    f->is_last = (head[0] & 0x80) != 0;
    size = head[1];
    more = size == 126 ? 2 : size == 127 ? 8 : 0;
    if ((head[0] & 0x70) || (head[1] & 0x80) ||
        !wire_read_until(w, head + 2, more, end_ms))
        return false;
    if (more)
        size = 0;
    for (size_t i = 0; i < more; i++)
        size = size << 8 | head[2 + i];
    if (f->opcode >= WIRE_CLOSE && (size > WIRE_CONTROL_MAX || !f->is_last))
        return false;

    if (size > BODY_MAX || !wire_room(w, at + (size_t)size))
        return false;
    f->payload = w->body;
    f->size = at + (size_t)size;
    return wire_read_until(w, w->body + at, (size_t)size, end_ms);
}

bool
wire_frame(struct wire *w, struct wire_frame *f)
{
    return read_frame(w, f, 0);
}

bool
wire_message(struct wire *w, struct wire_frame *f)
{
    enum wire_opcode kind = WIRE_CONTINUATION;
    size_t size = 0;

    for (;;) {
        if (!read_frame(w, f, size))
            return false;
        if (f->opcode == WIRE_CLOSE) {
            memmove(f->payload, f->payload + size, f->size - size + 1);
            f->size -= size;
            return true;
        }
        if (f->opcode == WIRE_PING)
            wire_send_frame(w, WIRE_PONG, true, f->payload + size,
                            f->size - size);
        if (f->opcode >= WIRE_CLOSE)
            continue;
        if ((kind == WIRE_CONTINUATION) == (f->opcode == WIRE_CONTINUATION))
            return false; /* a fragment of nothing, or a message within one */
        if (f->opcode != WIRE_CONTINUATION)
            kind = f->opcode;
        size = f->size;
        if (f->is_last) {
            f->opcode = kind;
            return true;
        }
    }
}

bool
wire_send_frame(struct wire *w, enum wire_opcode opcode, bool is_last,
                const void *payload, size_t size)
{
    static const uint8_t mask[4] = {0x12, 0x34, 0x56, 0x78};
    uint8_t *frame = malloc(14 + size);
    const uint8_t *from = payload;
    size_t n = 2;
    bool is_sent = false;

    if (!frame)
        return false;
    frame[0] = (uint8_t)((is_last ? 0x80 : 0) | opcode);
    if (size < 126) {
        frame[1] = (uint8_t)(0x80 | size);
    } else if (size < 65536) {
        frame[1] = 0x80 | 126;
        frame[n++] = (uint8_t)(size >> 8);
        frame[n++] = (uint8_t)size;
    } else {
        frame[1] = 0x80 | 127;
        for (int shift = 56; shift >= 0; shift -= 8)
            frame[n++] = (uint8_t)((uint64_t)size >> shift);
    }
    memcpy(frame + n, mask, 4);
    n += 4;
    for (size_t i = 0; i < size; i++)
        frame[n + i] = from[i] ^ mask[i & 3];
    is_sent = wire_send(w, frame, n + size);
    free(frame);
    return is_sent;
}

unsigned
wire_close_code(const struct wire_frame *f)
{
    const uint8_t *p = (const uint8_t *)f->payload;

    return f->size < 2 ? 1005 : (unsigned)(p[0] << 8 | p[1]);
}
