/*
 * crowd_messages.c - what a subscriber gets: frames or chunks, messages, the
 * entries in them; byte by byte, compared with what others got.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/crowd_inside.h"
#include "tests/test.h"

static const struct {
    const char *subprotocol;
    const char *entries; /* begin after this */
    const char *after, *last, *digest;
    const char *footer;
} forms[] = {
    [NOTICE_JSON] =
        {
            .subprotocol = "resourcesync.json",
            .entries = "\"changes\":[",
            .after = "\"after\":",
            .last = "\"last\":",
            .digest = "\"digest\":\"",
            .footer = "]}\n",
        },
    [NOTICE_XML] =
        {
            .subprotocol = "resourcesync.xml",
            .entries = "/>\n",
            .after = "td:after=\"",
            .last = "td:last=\"",
            .digest = "td:digest=\"",
            .footer = "</urlset>\n",
        },
};

const char *
crowd_subprotocol(enum notice_form form)
{
    return forms[form].subprotocol;
}

bool
crowd_is_there(const struct crowd *c, const struct member *m)
{
    return m->is_greeted && m->last >= c->awaited;
}

/* Messages */

static uint64_t
number_after(const char *head, const char *name)
{
    const char *at = strstr(head, name);

    if (!at)
        fail_msg("a message without %s: %s", name, head);
    return strtoull(at + strlen(name), NULL, 10);
}

static void
take_digest(struct crowd *c, const struct member *m)
{
    const char *at = strstr(m->head, forms[m->form].digest);
    char *known = c->digests[m->message_last];

    assert_non_null(at);
    at += strlen(forms[m->form].digest);
    if (!known[0])
        snprintf(known, NOTICE_DIGEST_SIZE, "%s", at);
    assert_memory_equal(known, at, NOTICE_DIGEST_SIZE - 1);
}

/* Bytes of entries: the next in the text of the form. */
static void
add_entries(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    struct buf *text = &c->texts[m->form].bytes;
    size_t known = text->size - m->at;

    if (known > size)
        known = size;
    if (known > 0 && memcmp(text->data + m->at, bytes, known))
        fail_msg("other entries after %llu than others got",
                 (unsigned long long)m->last);
    buf_add(text, bytes + known, size - known);
    assert_false(text->failed);
    m->at += size;
}

/* The last bytes so far may be the footer, so they are held back. */
static void
take_entries(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    size_t footer = strlen(forms[m->form].footer);
    size_t more = m->held_size + size, from_held;

    more = more > footer ? more - footer : 0; /* certainly of entries */
    from_held = more < m->held_size ? more : m->held_size;
    add_entries(c, m, m->held, from_held);
    memmove(m->held, m->held + from_held, m->held_size - from_held);
    m->held_size -= from_held;
    more -= from_held;
    add_entries(c, m, bytes, more);
    memcpy(m->held + m->held_size, bytes + more, size - more);
    m->held_size += size - more;
}

/* Finds where the entries begin; returns how much of `bytes` is before. */
static size_t
take_head(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    size_t before = m->head_size;
    size_t room = HEAD_MAX - 1 - before;
    const char *from = m->head, *end;

    memcpy(m->head + before, bytes, size < room ? size : room);
    m->head_size += size < room ? size : room;
    m->head[m->head_size] = '\0';
    if (m->form == NOTICE_XML) /* links have the same end */
        from = strstr(m->head, "<rs:md ");
    end = from ? strstr(from, forms[m->form].entries) : NULL;
    if (!end) {
        assert_true(m->head_size < HEAD_MAX - 1);
        return size;
    }
    m->is_in_entries = true;
    m->message_last = number_after(m->head, forms[m->form].last);
    assert_int_equal(number_after(m->head, forms[m->form].after), m->last);
    assert_in_range(m->message_last, m->last, c->entries_max);
    take_digest(c, m);
    if (m->form == NOTICE_JSON && m->message_last > m->last && m->last > 0)
        add_entries(c, m, ",", 1); /* which is not there between messages */
    return (size_t)(end - m->head) + strlen(forms[m->form].entries) - before;
}

static void
end_message(struct crowd *c, struct member *m)
{
    size_t *end = &c->texts[m->form].ends[m->message_last];

    assert_true(m->is_in_entries);
    assert_int_equal(m->held_size, strlen(forms[m->form].footer));
    assert_memory_equal(m->held, forms[m->form].footer, m->held_size);
    if (*end == NO_OFFSET)
        *end = m->at;
    assert_int_equal(*end, m->at);
    if (!m->is_greeted)
        assert_int_equal(m->message_last, m->last);

    c->n_there -= crowd_is_there(c, m);
    m->last = m->message_last;
    m->is_greeted = true;
    c->n_there += crowd_is_there(c, m);
    m->is_in_entries = false;
    m->head_size = m->held_size = 0;
}

/* Frames */

static size_t
take_answer(struct member *m, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        assert_true(m->head_size < HEAD_MAX - 1);
        m->head[m->head_size++] = bytes[i];
        if (m->head_size < 4 ||
            memcmp(m->head + m->head_size - 4, "\r\n\r\n", 4))
            continue;
        m->head[m->head_size] = '\0';
        if (strncmp(m->head, m->is_events ? "HTTP/1.1 200 " : "HTTP/1.1 101 ",
                    13) != 0)
            fail_msg("no stream: %s", m->head);
        m->phase = AT_FRAME;
        m->head_size = 0;
        return i + 1;
    }
    return size;
}

/* The header of a frame, byte by byte. */
static size_t
take_frame(struct member *m, const char *bytes)
{
    size_t whole;

    m->frame[m->frame_size++] = (unsigned char)*bytes;
    if (m->frame_size < 2)
        return 1;
    whole = m->frame[1] == 126 ? 4 : m->frame[1] == 127 ? 10 : 2;
    if (m->frame_size < whole)
        return 1;
    if ((m->frame[0] & 15) > 1)
        fail_msg("a frame of kind %d after entry %llu", m->frame[0] & 15,
                 (unsigned long long)m->last);
    m->payload_left = whole == 2 ? m->frame[1] : 0;
    for (size_t i = 2; i < whole; i++)
        m->payload_left = m->payload_left << 8 | m->frame[i];
    assert_true(m->payload_left > 0 && whole + m->payload_left <= 65536);
    m->frame_size = 0;
    m->phase = AT_PAYLOAD;
    return 1;
}

/* The same of a chunk: "fff8\r\n". */
static size_t
take_chunk(struct member *m, const char *bytes)
{
    assert_true(m->frame_size < sizeof(m->frame) - 1);
    m->frame[m->frame_size++] = (unsigned char)*bytes;
    if (*bytes != '\n')
        return 1;
    m->frame[m->frame_size] = '\0';
    m->payload_left = strtoull((char *)m->frame, NULL, 16);
    assert_true(m->payload_left > 0 &&
                m->frame_size + m->payload_left + 2 <= 65536);
    m->frame_size = 0;
    m->phase = AT_PAYLOAD;
    return 1;
}

/* The line's end behind a chunk. */
static size_t
take_end(struct member *m, const char *bytes)
{
    assert_int_equal(*bytes, "\r\n"[m->frame_size++]);
    if (m->frame_size == 2) {
        m->frame_size = 0;
        m->phase = AT_FRAME;
    }
    return 1;
}

/* Bytes of events, up to the end of one at most. The data have no lines, so an
 * empty line ends an event; its first one is as good as the line's end behind a
 * message of a WebSocket. */
static size_t
take_event(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    size_t n = 0, head;
    bool is_end = false;

    while (n < size && !is_end) {
        const char *line = memchr(bytes + n, '\n', size - n);
        char before;

        if (!line) {
            n = size;
            m->byte = bytes[n - 1];
            break;
        }
        n = (size_t)(line - bytes) + 1;
        before = n > 1 ? bytes[n - 2] : m->byte;
        is_end = before == '\n';
        m->byte = '\n';
    }
    size = n - is_end;
    head = m->is_in_entries ? 0 : take_head(c, m, bytes, size);
    if (m->is_in_entries)
        take_entries(c, m, bytes + head, size - head);
    if (is_end) {
        if (m->is_in_entries)
            end_message(c, m);
        else
            assert_memory_equal(m->head, "retry: ", 7);
        m->head_size = 0;
        m->byte = 0;
    }
    return n;
}

static size_t
take_events(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    size_t n = size < m->payload_left ? size : (size_t)m->payload_left;

    for (size_t at = 0; at < n;)
        at += take_event(c, m, bytes + at, n - at);
    m->payload_left -= n;
    if (m->payload_left == 0)
        m->phase = AT_END;
    return n;
}

static size_t
take_payload(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    size_t n = size < m->payload_left ? size : (size_t)m->payload_left;
    size_t head = m->is_in_entries ? 0 : take_head(c, m, bytes, n);

    if (m->is_in_entries)
        take_entries(c, m, bytes + head, n - head);
    m->payload_left -= n;
    if (m->payload_left == 0) {
        m->phase = AT_FRAME;
        if (m->frame[0] & 0x80)
            end_message(c, m);
    }
    return n;
}

void
crowd_take(struct crowd *c, struct member *m, const char *bytes, size_t size)
{
    while (size > 0) {
        size_t n;

        if (m->phase == AT_ANSWER)
            n = take_answer(m, bytes, size);
        else if (m->phase == AT_FRAME)
            n = m->is_events ? take_chunk(m, bytes) : take_frame(m, bytes);
        else if (m->phase == AT_PAYLOAD)
            n = m->is_events ? take_events(c, m, bytes, size)
                             : take_payload(c, m, bytes, size);
        else
            n = take_end(m, bytes);

        bytes += n;
        size -= n;
    }
}
