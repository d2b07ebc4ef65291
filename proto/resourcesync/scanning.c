#include "proto/resourcesync/scanning.h"

#include "proto/utf8.h"

static _Atomic(bool) is_off;

void
scanning_switch(bool is_on)
{
    is_off = !is_on;
}

bool
scanning_is_on(void)
{
    return !is_off;
}

bool
scanning_is_text(struct slice text)
{
    while (text.size > 0) {
        uint32_t c;
        size_t n = utf8_read(text.data, text.size, &c);

        if (n == 0 || !utf8_is_xml(c))
            return false;
        slice_skip(&text, n);
    }
    return true;
}

struct slice
scanning_input(struct scan_held *held, struct slice bytes)
{
    size_t n = sizeof(held->bytes) - held->n;

    if (held->n == 0)
        return bytes;
    if (n > bytes.size)
        n = bytes.size;
    memcpy(held->bytes + held->n, bytes.data, n);
    return (struct slice){held->bytes, held->n + n};
}

void
scanning_take(struct scan_held *held, struct slice *bytes, size_t size)
{
    if (size < held->n) {
        held->n -= size;
        memmove(held->bytes, held->bytes + size, held->n);
    } else {
        slice_skip(bytes, size - held->n);
        held->n = 0;
    }
}

bool
scanning_hold(struct scan_held *held, struct slice *bytes)
{
    if (bytes->size >= sizeof(held->bytes) - held->n)
        return false;
    if (held->n == 0)
        memcpy(held->bytes, bytes->data, bytes->size);
    held->n += bytes->size; /* scanning_input has copied them */
    slice_skip(bytes, bytes->size);
    return true;
}
