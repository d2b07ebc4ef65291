/*
 * follow_request_fuzz.c - which sets a client follows: "?" and a query; "#" and
 * the bytes of a resume text, to which this target adds the CRC and the base64,
 * else no input would come past them; anything else is JSON.
 */
#include "broker/push/follow_request.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "broker/push/resume_text.h"
#include "tests/fuzz/fuzz.h"

/* The epoch of the framework log. */
#define LOG "0123456789abcdef"

static void
check_items(const struct follow_request *request)
{
    for (size_t i = 0; i < request->n; i++) {
        const struct follow_item *item = &request->items[i];

        FUZZ_ASSERT(item->name[0] && strlen(item->name) <= PATTERN_MAX);
        FUZZ_ASSERT(item->is_pattern ==
                    !set_name_is_valid(slice_of(item->name)));
        FUZZ_ASSERT(!item->has_after || !item->has_since);
        FUZZ_ASSERT(!item->is_pattern || !item->has_after ||
                    item->after.seq == 0);
    }
}

/* A text that is accepted is written and reads back equal. */
static void
check_resume(struct slice from)
{
    struct problem why = {""};
    struct resume_text text, again;
    struct buf written;

    if (!resume_text_read(&text, LOG, from, &why)) {
        for (size_t i = 0; i < text.n; i++)
            FUZZ_ASSERT(resume_text_find(&text, text.entries[i].number) ==
                        &text.entries[i]);
        buf_init(&written, RESUME_TEXT_MAX);
        FUZZ_ASSERT(resume_text_write(&written, LOG, &text));
        FUZZ_ASSERT(!resume_text_read(&again, LOG, buf_slice(&written), &why));
        FUZZ_ASSERT(again.n == text.n && again.newest == text.newest &&
                    again.made_us == text.made_us);
        for (size_t i = 0; i < text.n; i++)
            FUZZ_ASSERT(again.entries[i].number == text.entries[i].number &&
                        again.entries[i].seq == text.entries[i].seq &&
                        again.entries[i].mark == text.entries[i].mark);
        free(again.entries);
        buf_fini(&written);
    }
    free(text.entries);
}

/* Adds the CRC-32, and writes base64url. */
static void
check_resume_bytes(struct slice bytes)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char room[4096 + 4];
    char text[2 * sizeof(room)];
    unsigned long crc =
        crc32(0, (const unsigned char *)bytes.data, (unsigned int)bytes.size);
    size_t size = 0, n = bytes.size;

    memcpy(room, bytes.data, n);
    for (int shift = 24; shift >= 0; shift -= 8)
        room[n++] = (unsigned char)(crc >> shift);
    for (size_t bit = 0; bit < 8 * n; bit += 6) {
        size_t at = bit / 8;
        unsigned pair =
            (unsigned)room[at] << 8 | (at + 1 < n ? room[at + 1] : 0U);

        text[size++] = digits[pair >> (10 - bit % 8) & 63];
    }
    check_resume((struct slice){text, size});
}

FUZZ_TARGET(follow_request, text)
{
    struct follow_request request = {NULL};
    struct problem why = {""};
    struct slice rest = text;
    enum status rc;

    if (text.size > 4096)
        return;
    if (text.size > 0)
        slice_skip(&rest, 1);
    if (slice_starts(text, "#")) {
        check_resume_bytes(rest);
        return;
    }
    rc = slice_starts(text, "?") ? follow_request_query(&request, rest, &why)
                                 : follow_request_json(&request, text, &why);
    if (rc)
        FUZZ_ASSERT(why.text[0]);
    else
        check_items(&request);
    if (!rc && request.resume)
        check_resume(slice_of(request.resume));
    follow_request_fini(&request);
}
