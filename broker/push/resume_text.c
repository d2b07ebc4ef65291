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

static uint8_t
hex_byte(const char *digits)
{
    return (uint8_t)(hex_value(digits[0]) << 4 | hex_value(digits[1]));
}

uint8_t
resume_mark(const char *epoch)
{
    return hex_byte(epoch);
}

/* Writing */

static void
add_number(struct buf *to, uint64_t n)
{
    char bytes[LEB128_SIZE_MAX];

    buf_add(to, bytes, leb128_write(bytes, n));
}

static void
add_head(struct buf *to, const char *log, const struct resume_text *text)
{
    add_number(to, VERSION);
    for (size_t i = 0; i < EPOCH_SIZE; i += 2)
        buf_add(to, &(uint8_t){hex_byte(log + i)}, 1);
    add_number(to, (uint64_t)text->made_us);
    add_number(to, text->newest);
    add_number(to, text->n);
}

/* RFC 4648 section 5, without padding. */
static void
add_base64url(struct buf *to, struct slice bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrs"
                                 "tuvwxyz0123456789-_";

    for (size_t i = 0; i < bytes.size; i += 3) {
        uint32_t group = 0;
        size_t n = bytes.size - i < 3 ? bytes.size - i : 3;

        for (size_t j = 0; j < 3; j++)
            group = group << 8 | (j < n ? (unsigned char)bytes.data[i + j] : 0);
        for (size_t j = 0; j <= n; j++)
            buf_add(to, &digits[group >> (18 - 6 * j) & 63], 1);
    }
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
    struct buf bytes;
    bool is_written;

    buf_init(&bytes, BYTES_MAX);
    qsort(text->entries, text->n, sizeof(*text->entries), compare);
    add_head(&bytes, log, text);
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
    if (is_written)
        add_base64url(to, buf_slice(&bytes));
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
take_entry(struct slice *bytes, uint64_t *before, struct resume_entry *e)
{
    uint64_t step;

    if (!leb128_take(bytes, &step) || step == 0 ||
        __builtin_add_overflow(*before, step, &e->number) ||
        !leb128_take(bytes, &e->seq) || bytes->size == 0)
        return false;
    e->mark = (uint8_t)bytes->data[0];
    slice_skip(bytes, 1);
    *before = e->number;
    return true;
}

static bool
take_head(struct slice *bytes, const char *log, struct resume_text *text)
{
    uint64_t version, made, n;

    if (!leb128_take(bytes, &version) || version != VERSION ||
        bytes->size < LOG_SIZE)
        return false;
    for (size_t i = 0; i < LOG_SIZE; i++)
        if ((uint8_t)bytes->data[i] != hex_byte(log + 2 * i))
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

static bool
is_whole(struct slice bytes)
{
    char room[CRC_SIZE];
    struct buf crc;

    if (bytes.size <= CRC_SIZE)
        return false;
    bytes.size -= CRC_SIZE;
    buf_init_fixed(&crc, room, CRC_SIZE);
    add_crc(&crc, bytes);
    return !memcmp(room, bytes.data + bytes.size, CRC_SIZE);
}

enum status
resume_text_read(struct resume_text *text, const char *log, struct slice from,
                 struct problem *why)
{
    char room[BYTES_MAX];
    struct slice bytes = {room, 0};
    uint64_t before = 0;

    *text = (struct resume_text){.n = 0};
    if (from.size > RESUME_TEXT_MAX ||
        !jose_base64url(room, sizeof(room), &bytes.size, from) ||
        !is_whole(bytes))
        return refuse(why);
    bytes.size -= CRC_SIZE;
    if (!take_head(&bytes, log, text))
        return refuse(why);
    text->entries = memory_new(text->n + 1, sizeof(*text->entries));
    for (size_t i = 0; i < text->n; i++)
        if (!take_entry(&bytes, &before, &text->entries[i]))
            return refuse(why);
    return bytes.size > 0 ? refuse(why) : STATUS_OK;
}

const struct resume_entry *
resume_text_find(const struct resume_text *text, uint64_t number)
{
    const struct resume_entry key = {.number = number};

    return bsearch(&key, text->entries, text->n, sizeof(key), compare);
}
