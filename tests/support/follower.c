#include "tests/support/follower.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

/* No message is larger, whatever --message-bytes says. */
#define TEXT_MAX ((size_t)64 << 20)

static void
open_with(struct follower *f, struct wire *w, const char *path,
          const char *subprotocol)
{
    struct wire_answer a;
    char echoed[64];

    *f = (struct follower){.wire = w, .form = NOTICE_JSON};
    f->is_filtered = strstr(path, "change=") || strstr(path, "prefix=") ||
                     strstr(path, "type=") || strstr(path, "tag=");
    assert_non_null(w);
    buf_init(&f->text, TEXT_MAX);
    if (!wire_upgrade(w, path, subprotocol, &a))
        fail_msg("no WebSocket at %s: %s", path, a.head);
    if (!subprotocol) {
        assert_false(
            wire_header(&a, "Sec-WebSocket-Protocol", echoed, sizeof(echoed)));
        return;
    }
    assert_true(
        wire_header(&a, "Sec-WebSocket-Protocol", echoed, sizeof(echoed)));
    assert_string_equal(echoed, subprotocol);
    if (!strcmp(subprotocol, "resourcesync.xml"))
        f->form = NOTICE_XML;
}

void
follower_open(struct follower *f, unsigned port, const char *path,
              const char *subprotocol)
{
    open_with(f, wire_connect("127.0.0.1", port), path, subprotocol);
}

void
follower_open_narrow(struct follower *f, unsigned port, const char *path,
                     const char *subprotocol)
{
    open_with(f, wire_connect_narrow("127.0.0.1", port), path, subprotocol);
}

void
follower_open_tls(struct follower *f, unsigned port, const char *path,
                  const char *subprotocol)
{
    struct wire *w = wire_connect("127.0.0.1", port);

    assert_true(w && wire_start_tls(w, 0));
    open_with(f, w, path, subprotocol);
}

void
follower_close(struct follower *f)
{
    wire_close(f->wire);
    buf_fini(&f->text);
    notice_free(&f->notice);
}

static void
take_close(struct follower *f, const struct wire_frame *frame)
{
    f->close_code = wire_close_code(frame);
    if (frame->size > 2)
        snprintf(f->close_reason, sizeof(f->close_reason), "%s",
                 frame->payload + 2);
}

/* Reads one whole message into f->text. false: the broker has closed. */
static bool
read_message(struct follower *f)
{
    struct wire_frame frame = {.is_last = false};

    buf_clear(&f->text);
    f->n_frames = 0;
    while (!frame.is_last || frame.opcode >= WIRE_CLOSE) {
        if (!wire_frame(f->wire, &frame))
            fail_msg("no message came");
        if (frame.opcode == WIRE_CLOSE) {
            take_close(f, &frame);
            return false;
        }
        if (frame.opcode > WIRE_CLOSE)
            continue;
        assert_int_equal(frame.opcode,
                         f->n_frames == 0 ? WIRE_TEXT : WIRE_CONTINUATION);
        assert_true(frame.size + 4 <= FOLLOWER_FRAME_MAX);
        buf_add(&f->text, frame.payload, frame.size);
        f->n_frames++;
    }
    assert_false(f->text.failed);
    return true;
}

static void
take_message(struct follower *f)
{
    struct notice before = f->notice;

    notice_read(&f->notice, f->form, buf_slice(&f->text));
    if (f->is_filtered)
        notice_check_filtered(&f->notice);
    else
        notice_check(&f->notice);
    if (f->has_notice) {
        notice_check_chain(&before, &f->notice);
    } else {
        assert_int_equal(f->notice.n, 0); /* the first is a heartbeat */
    }
    if (f->notice.n == 0) {
        assert_int_equal(strlen(f->notice.now), 27);
        assert_string_not_equal(f->notice.heartbeat, "");
    }
    f->n_messages += f->notice.n > 0;
    f->has_notice = true;
    notice_free(&before);
}

const struct notice *
follower_next(struct follower *f)
{
    if (!read_message(f))
        fail_msg("the broker closed with %u %s", f->close_code,
                 f->close_reason);
    take_message(f);
    return &f->notice;
}

const struct notice *
follower_news(struct follower *f)
{
    do
        follower_next(f);
    while (f->notice.n == 0);
    return &f->notice;
}

void
follower_until(struct follower *f, uint64_t last)
{
    while (!f->has_notice || f->notice.last < last)
        follower_next(f);
    assert_int_equal(f->notice.last, last);
}

void
follower_expect_close(struct follower *f, unsigned code)
{
    while (read_message(f))
        take_message(f);
    assert_int_equal(f->close_code, code);
}
