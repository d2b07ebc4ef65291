#include "base/inflater.h"

#include <libdeflate.h>

/* What the sender has left out (RFC 7692 section 7.2.1), and behind it an empty
 * last block: libdeflate reads whole streams, in less than half of zlib's time.
 */
static const unsigned char tail[] = {0x00, 0x00, 0xff, 0xff, 0x03, 0x00};

/* A message becomes so many times its size, most often. */
#define USUAL_GROWTH 8

#define ROOM_LEAST 4096

struct inflater {
    struct libdeflate_decompressor *d;
    struct buf packed; /* the message, with the tail */
};

struct inflater *
inflater_new(void)
{
    struct inflater *inflater = memory_new(1, sizeof(*inflater));

    if (inflater)
        inflater->d = libdeflate_alloc_decompressor();
    if (inflater && !inflater->d) {
        free(inflater);
        return NULL;
    }
    if (inflater)
        buf_init(&inflater->packed, SIZE_MAX / 2);
    return inflater;
}

void
inflater_free(struct inflater *inflater)
{
    if (!inflater)
        return;
    libdeflate_free_decompressor(inflater->d);
    buf_fini(&inflater->packed);
    free(inflater);
}

enum status
inflater_read(struct inflater *inflater, struct slice message, struct buf *to,
              struct problem *why)
{
    struct buf *packed = &inflater->packed;
    size_t most = to->max - to->size;
    size_t room = USUAL_GROWTH * message.size + ROOM_LEAST, size;
    enum libdeflate_result result;

    buf_clear(packed);
    buf_add_slice(packed, message);
    buf_add(packed, tail, sizeof(tail));
    if (packed->failed)
        return problem_memory(why);
    for (;;) {
        char *at;

        room = room < most ? room : most;
        if (!(at = buf_room(to, room)))
            return problem_memory(why);
        result = libdeflate_deflate_decompress(inflater->d, packed->data,
                                               packed->size, at, room, &size);
        if (result != LIBDEFLATE_INSUFFICIENT_SPACE)
            break;
        if (room == most)
            return problem(why, STATUS_TOO_LARGE, "the message is too large");
        room *= USUAL_GROWTH;
    }
    if (result != LIBDEFLATE_SUCCESS)
        return problem(why, STATUS_MALFORMED,
                       "the message is not deflated as it says");
    to->size += size;
    return STATUS_OK;
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
