#include "base/inflater.h"

#include <stdint.h>
#include <stdlib.h>

#include <zlib.h>

#include "proto/memory.h"

/* Negative: no header, no checksum. The largest window reads what any smaller
 * one wrote. */
#define WINDOW_BITS (-15)

#define STEP_SIZE 16384

/* What the sender has left out (RFC 7692 section 7.2.1). */
static const unsigned char tail[] = {0x00, 0x00, 0xff, 0xff};

struct inflater {
    z_stream z;
};

/* Inflates `input`, all of it. */
static enum status
inflate_part(z_stream *z, const void *input, size_t size, struct buf *to,
             struct problem *why)
{
    z->next_in = (unsigned char *)(uintptr_t)input;
    z->avail_in = (unsigned)size;
    do {
        char *room = buf_room(to, STEP_SIZE);
        int rc;

        if (!room && to->max - to->size < STEP_SIZE)
            return problem(why, STATUS_TOO_LARGE, "the message is too large");
        if (!room)
            return problem_memory(why);
        z->next_out = (unsigned char *)room;
        z->avail_out = STEP_SIZE;
        rc = inflate(z, Z_SYNC_FLUSH);
        to->size += STEP_SIZE - z->avail_out;
        if (rc == Z_MEM_ERROR)
            return problem_memory(why);
        if (rc == Z_STREAM_END)
            return STATUS_OK;
        if (rc != Z_OK && rc != Z_BUF_ERROR)
            return problem(why, STATUS_MALFORMED,
                           "the message is not deflated as it says");
    } while (z->avail_in > 0 || z->avail_out == 0);
    return STATUS_OK;
}

struct inflater *
inflater_new(void)
{
    struct inflater *inflater = memory_new(1, sizeof(*inflater));

    if (inflater && inflateInit2(&inflater->z, WINDOW_BITS) != Z_OK) {
        free(inflater);
        return NULL;
    }
    return inflater;
}

void
inflater_free(struct inflater *inflater)
{
    if (!inflater)
        return;
    inflateEnd(&inflater->z);
    free(inflater);
}

enum status
inflater_read(struct inflater *inflater, struct slice message, struct buf *to,
              struct problem *why)
{
    z_stream *z = &inflater->z;
    enum status rc;

    inflateReset(z);
    rc = inflate_part(z, message.data, message.size, to, why);
    return rc ? rc : inflate_part(z, tail, sizeof(tail), to, why);
}

enum status
inflate_message(struct slice message, struct buf *to, struct problem *why)
{
    struct inflater *inflater = inflater_new();
    enum status rc = inflater ? inflater_read(inflater, message, to, why)
                              : problem_memory(why);

    inflater_free(inflater);
    return rc;
}
