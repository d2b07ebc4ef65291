#include "proto/buf.h"

#include "proto/number.h"

/* The first growth: most answers and every fragment of usual size fit. */
#define CAPACITY_FIRST 1024

void
buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void
buf_fini(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.max = b->max};
}

void
buf_clear(struct buf *b)
{
    b->size = 0;
    b->failed = b->is_starved = false;
}

void
buf_clear_large(struct buf *b, size_t keep)
{
    if (b->capacity > keep) {
        free(b->data);
        b->data = NULL;
        b->capacity = 0;
    }
    buf_clear(b);
}

char *
buf_room(struct buf *b, size_t size)
{
    size_t capacity = b->capacity;
    char *data;

    if (b->failed)
        return NULL;
    if (size <= capacity - b->size && b->data)
        return b->data + b->size;
    if (size > b->max - b->size)
        goto fail;

    capacity = capacity > b->max / 2 ? b->max : capacity * 2;
    if (capacity < CAPACITY_FIRST)
        capacity = CAPACITY_FIRST < b->max ? CAPACITY_FIRST : b->max;
    if (capacity - b->size < size)
        capacity = b->size + size;

    data = memory_grow(b->data, 1, capacity > 0 ? capacity : 1);
    b->is_starved = !data;
    if (!data)
        goto fail;
    b->data = data;
    b->capacity = capacity;
    return data + b->size;

fail:
    b->failed = true;
    return NULL;
}

void
buf_add_more(struct buf *b, const void *data, size_t size)
{
    char *to;

    if (size == 0)
        return;
    to = buf_room(b, size);
    if (!to)
        return;
    memcpy(to, data, size);
    b->size += size;
}

void
buf_add_text(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void
buf_add_number(struct buf *b, uint64_t number)
{
    char text[NUMBER_SIZE_MAX];

    buf_add(b, text, number_write(text, number));
}

void
buf_add_format(struct buf *b, const char *format, ...)
{
    char small[256], *text = small;
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(small, sizeof(small), format, arguments);
    va_end(arguments);
    if (size >= (int)sizeof(small)) {
        text = memory_room((size_t)size + 1);
        va_start(arguments, format);
        if (text)
            vsnprintf(text, (size_t)size + 1, format, arguments);
        va_end(arguments);
    }
    b->is_starved |= !text;
    if (size < 0 || !text)
        b->failed = true;
    else
        buf_add(b, text, (size_t)size);
    if (text != small)
        free(text);
}

void
buf_add_hex(struct buf *b, const uint8_t *bytes, size_t size)
{
    char *to;

    if (size > SIZE_MAX / 2)
        b->failed = true;
    to = buf_room(b, size * 2);
    if (!to)
        return;
    hex_write(to, bytes, size);
    b->size += size * 2;
}
