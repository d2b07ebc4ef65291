#include "proto/http/multipart.h"

#include <inttypes.h>

#include "tests/fuzz/fuzz.h"

/* All events of a reading, in order. */
struct seen {
    struct buf text;
    bool is_open;
    uint64_t n;
    uint64_t size; /* of all bodies */
    uint64_t end;  /* upper bound: the bytes fed */
};

static enum status
on_begin(const struct multipart_part *part, void *user, struct problem *why)
{
    struct seen *seen = user;

    (void)why;
    FUZZ_ASSERT(!seen->is_open);
    FUZZ_ASSERT(part->number == ++seen->n);
    FUZZ_ASSERT(part->offset <= seen->end);
    FUZZ_ASSERT(part->type.size + part->location.size + part->id.size <
                MULTIPART_HEADERS_MAX);
    seen->is_open = true;
    buf_add_format(&seen->text, "%" PRIu64 ":%zu %zu %zu:", part->offset,
                   part->type.size, part->location.size, part->id.size);
    buf_add_slice(&seen->text, part->type);
    buf_add_slice(&seen->text, part->location);
    buf_add_slice(&seen->text, part->id);
    return STATUS_OK;
}

static enum status
on_add(struct slice bytes, void *user, struct problem *why)
{
    struct seen *seen = user;

    (void)why;
    FUZZ_ASSERT(seen->is_open && bytes.size > 0);
    seen->size += bytes.size;
    FUZZ_ASSERT(seen->size <= seen->end);
    buf_add_slice(&seen->text, bytes);
    return STATUS_OK;
}

static enum status
on_end(void *user, struct problem *why)
{
    struct seen *seen = user;

    (void)why;
    FUZZ_ASSERT(seen->is_open);
    seen->is_open = false;
    buf_add_format(&seen->text, "|%" PRIu64 "|", seen->size);
    return STATUS_OK;
}

/* Reads all of it and records the events, and why it ended. */
static enum status
read_in_steps(const struct multipart_type *type, struct slice bytes,
              size_t step, struct buf *text)
{
    struct seen seen = {.is_open = false, .end = bytes.size};
    struct multipart_sink sink = {on_begin, on_add, on_end, &seen};
    struct problem why = {.text = ""};
    struct multipart m;
    enum status rc = STATUS_OK;

    buf_init(&seen.text, SIZE_MAX);
    multipart_init(&m, type, &sink);
    while (!rc && bytes.size > 0)
        rc = multipart_feed(&m, fuzz_take(&bytes, step), &why);
    if (!rc)
        rc = multipart_end(&m, &why);
    multipart_fini(&m);
    FUZZ_ASSERT(rc || !seen.is_open);
    FUZZ_ASSERT(rc || seen.n > 0);
    if (rc) {
        FUZZ_ASSERT(rc == STATUS_MALFORMED || rc == STATUS_UNSUPPORTED ||
                    rc == STATUS_TOO_LARGE);
        fuzz_check_problem(&why);
        /* The number of body bytes before a refusal depends on the pieces; the
         * reason of the refusal does not. */
        buf_clear(&seen.text);
        buf_add_text(&seen.text, why.text);
    }
    *text = seen.text;
    return rc;
}

/* The first line is the Content-Type, where it is one. */
FUZZ_TARGET(multipart, bytes)
{
    struct slice line = bytes, first = slice_take(&line, '\n');
    struct multipart_type type;
    struct problem why = {""};
    struct buf whole, pieces;

    if (multipart_read_type(first, &type, &why)) {
        fuzz_check_problem(&why);
        memset(&type, 0, sizeof(type));
        memcpy(type.boundary, "b", 2);
    } else {
        size_t n = strlen(type.boundary);

        FUZZ_ASSERT(n > 0 && n <= MULTIPART_BOUNDARY_MAX);
        FUZZ_ASSERT(type.boundary[n - 1] != ' ');
        bytes = line;
    }
    FUZZ_ASSERT(read_in_steps(&type, bytes, SIZE_MAX, &whole) ==
                read_in_steps(&type, bytes, 1 + bytes.size % 7, &pieces));
    FUZZ_ASSERT(slice_equal(buf_slice(&whole), buf_slice(&pieces)));
    buf_fini(&whole);
    buf_fini(&pieces);
}
