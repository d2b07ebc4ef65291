#include "broker/push/resume_text.h"

#include <zlib.h>

#include "broker/access/jose_text.h"
#include "proto/number.h"
#include "proto/resourcesync/position.h"

#define VERSION   1
#define LOG_SIZE  (EPOCH_SIZE / 2)
#define CRC_SIZE  4
#define BYTES_MAX (RESUME_TEXT_MAX / 4 * 3)

/* An entry has at least three bytes. */
#define ENTRIES_MAX (BYTES_MAX / 3)

uint8_t
resume_mark(const char *epoch)
{
    return (uint8_t)(hex_value(epoch[0]) << 4 | hex_value(epoch[1]));
}

/* Writing */

static void
add_number(struct buf *to, uint64_t n)
{
    char bytes[LEB128_SIZE_MAX];

    buf_add(to, bytes, leb128_write(bytes, n));
}

static void
add_crc(struct buf *to, struct slice of)
{
    uint32_t crc =
        (uint32_t)crc32(0, (const unsigned char *)of.data, (unsigned)of.size);

    for (int shift = 24; shift >= 0; shift -= 8)
        buf_add(to, &(char){(char)(crc >> shift)}, 1);
}

static int
compare(const void *a, const void *b)
{
    const struct resume_entry *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

bool
resume_text_write(struct buf *to, const char *log,
                  const struct resume_text *text)
{
    uint64_t before = 0;
    struct buf bytes = {.max = BYTES_MAX};
    char encoded[RESUME_TEXT_MAX + 1];
    bool is_written;

    qsort(text->entries, text->n, sizeof(*text->entries), compare);
    add_number(&bytes, VERSION);
    for (size_t i = 0; i < EPOCH_SIZE; i += 2)
        buf_add(&bytes, &(uint8_t){resume_mark(log + i)}, 1);
    add_number(&bytes, (uint64_t)text->made_us);
    add_number(&bytes, text->newest);
    add_number(&bytes, text->n);
    for (size_t i = 0; i < text->n && !bytes.failed; i++) {
        const struct resume_entry *e = &text->entries[i];

        add_number(&bytes, e->number - before);
        add_number(&bytes, e->seq);
        buf_add(&bytes, &e->mark, 1);
        before = e->number;
    }
    if (!bytes.failed)
        add_crc(&bytes, buf_slice(&bytes));
    is_written = !bytes.failed;
    if (is_written) {
        jose_base64url_write(encoded, buf_slice(&bytes));
        buf_add_text(to, encoded);
    }
    buf_fini(&bytes);
    return is_written;
}

/* Reading */

static enum status
refuse(struct problem *why)
{
    return problem(why, STATUS_INVALID,
                   "resume: damaged, or not a text of this broker");
}

static bool
take_head(struct slice *bytes, const char *log, struct resume_text *text)
{
    uint64_t version, made, n;

    if (!leb128_take(bytes, &version) || version != VERSION ||
        bytes->size < LOG_SIZE)
        return false;
    for (size_t i = 0; i < LOG_SIZE; i++)
        if ((uint8_t)bytes->data[i] != resume_mark(log + 2 * i))
            return false;
    slice_skip(bytes, LOG_SIZE);
    if (!leb128_take(bytes, &made) || made > INT64_MAX ||
        !leb128_take(bytes, &text->newest) || !leb128_take(bytes, &n) ||
        n > ENTRIES_MAX)
        return false;
    text->made_us = (int64_t)made;
    text->n = (size_t)n;
    return true;
}

enum status
resume_text_read(struct resume_text *text, const char *log, struct slice from,
                 struct problem *why)
{
    char room[BYTES_MAX], crc[CRC_SIZE];
    struct slice bytes = {room, 0};
    uint64_t step, number = 0;
    struct buf sum;

    *text = (struct resume_text){.n = 0};
    if (from.size > RESUME_TEXT_MAX ||
        !jose_base64url(room, sizeof(room), &bytes.size, from) ||
        bytes.size <= CRC_SIZE)
        return refuse(why);
    bytes.size -= CRC_SIZE;
    buf_init_fixed(&sum, crc, CRC_SIZE);
    add_crc(&sum, bytes);
    if (memcmp(crc, bytes.data + bytes.size, CRC_SIZE) != 0 ||
        !take_head(&bytes, log, text))
        return refuse(why);
    text->entries = memory_new(text->n + 1, sizeof(*text->entries));
    for (size_t i = 0; i < text->n; i++) {
        struct resume_entry *e = &text->entries[i];

        if (!leb128_take(&bytes, &step) || step == 0 ||
            __builtin_add_overflow(number, step, &number) ||
            !leb128_take(&bytes, &e->seq) || bytes.size == 0)
            return refuse(why);
        e->number = number;
        e->mark = (uint8_t)bytes.data[0];
        slice_skip(&bytes, 1);
    }
    return bytes.size > 0 ? refuse(why) : STATUS_OK;
}

const struct resume_entry *
resume_text_find(const struct resume_text *text, uint64_t number)
{
    const struct resume_entry key = {.number = number};

    return bsearch(&key, text->entries, text->n, sizeof(key), compare);
}
