#include "proto/json/json_parse.h"

#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

/* What the parser reports of a text, as text. */
struct told {
    enum status rc;
    struct problem why;
    uint64_t line;
    struct buf events;
};

static enum status
add_event(void *user, enum json_event event, struct slice text,
          struct problem *why)
{
    (void)why;
    FUZZ_ASSERT(fuzz_is_utf8(text));
    buf_add_format(user, "%d ", (int)event);
    buf_add_slice(user, text);
    BUF_ADD((struct buf *)user, "\n");
    return STATUS_OK;
}

/* Parses `text`, or its lines, `step` bytes at a time, each piece in memory of
 * its own: nothing of it may be looked at later. */
static struct told
parse(struct slice text, size_t step, bool is_lines)
{
    struct told told = {.why = {""}};
    struct json_parse *json;

    buf_init(&told.events, SIZE_MAX);
    json = json_parse_new(is_lines, add_event, &told.events);
    FUZZ_ASSERT(json);
    while (!told.rc && text.size > 0) {
        struct slice piece = fuzz_take(&text, step);
        char *copy = slice_dup(piece);

        FUZZ_ASSERT(copy);
        piece.data = copy;
        told.rc = json_parse_feed(json, &piece, &told.why);
        FUZZ_ASSERT(told.rc || piece.size == 0);
        free(copy);
    }
    if (!told.rc)
        told.rc = json_parse_end(json, &told.why);
    told.line = json_parse_line(json);
    FUZZ_ASSERT(told.rc || is_lines || json_parse_depth(json) == 0);
    json_parse_free(json);
    if (told.rc)
        fuzz_check_problem(&told.why);
    return told;
}

/* The parser reports the same in one piece and in many. */
static void
check(struct slice text, bool is_lines)
{
    struct told whole = parse(text, SIZE_MAX, is_lines);

    for (size_t step = 1; step < 40; step += 19) {
        struct told told = parse(text, step, is_lines);

        FUZZ_ASSERT(told.rc == whole.rc && told.line == whole.line);
        FUZZ_ASSERT(
            slice_equal(buf_slice(&told.events), buf_slice(&whole.events)));
        FUZZ_ASSERT(!strcmp(told.why.text, whole.why.text));
        buf_fini(&told.events);
    }
    buf_fini(&whole.events);
}

FUZZ_TARGET(json_parse, text)
{
    check(text, false);
    check(text, true);
}
