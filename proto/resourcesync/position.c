#include "proto/resourcesync/position.h"

#include "proto/number.h"

bool
epoch_is_valid(struct slice text)
{
    return text.size == EPOCH_SIZE && slice_is_of(text, "0123456789abcdef");
}

enum status
position_read(struct slice text, struct position *p)
{
    struct position result = {.seq = 0};

    if (text.size > EPOCH_SIZE && text.data[EPOCH_SIZE] == '-') {
        if (!epoch_is_valid((struct slice){text.data, EPOCH_SIZE}))
            return STATUS_MALFORMED;
        memcpy(result.epoch, text.data, EPOCH_SIZE);
        slice_skip(&text, EPOCH_SIZE + 1);
    }
    if (!number_read(text, &result.seq))
        return STATUS_MALFORMED;
    *p = result;
    return STATUS_OK;
}

size_t
position_write(char to[POSITION_MAX], const char *epoch, uint64_t seq)
{
    size_t size = strnlen(epoch, EPOCH_SIZE);

    memcpy(to, epoch, size);
    to[size++] = '-';
    size += number_write(to + size, seq);
    to[size] = '\0';
    return size;
}
