#include "client/source/source_position.h"

#include <stdio.h>

#include "proto/datetime.h"
#include "proto/number.h"

#define MARK_DIGITS 16

/* Reads sixteen hexadecimal digits, in lower case. */
static enum status
read_mark(struct slice text, uint64_t *mark)
{
    uint64_t n = 0;

    if (text.size != MARK_DIGITS)
        return STATUS_MALFORMED;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];

        if (c >= '0' && c <= '9')
            n = n << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            n = n << 4 | (uint64_t)(c - 'a' + 10);
        else
            return STATUS_MALFORMED;
    }
    *mark = n;
    return STATUS_OK;
}

/* "TIME", "TIME+N" or "TIME+N~MARK", after the "@". */
static enum status
read_time(struct slice text, struct source_position *place)
{
    const char *plus =
        text.size > 0 ? memrchr(text.data, '+', text.size) : NULL;
    struct slice count = {NULL, 0};
    struct slice number;

    place->is_time = true;
    if (plus) {
        count.data = plus + 1;
        count.size = text.size - (size_t)(count.data - text.data);
        text.size = (size_t)(plus - text.data);
        number = slice_take(&count, '~');
        if (!number_read(number, &place->n_at) ||
            (count.size > 0 && read_mark(count, &place->mark)))
            return STATUS_MALFORMED;
    }
    /* source_position_write uses "Z": an offset would have another "+". */
    if (text.size == 0 || text.data[text.size - 1] != 'Z' ||
        datetime_read(text, &place->time_us))
        return STATUS_MALFORMED;
    return STATUS_OK;
}

enum status
source_position_read(struct slice text, struct source_position *place)
{
    struct source_position result = {.time_us = DATETIME_NONE};
    enum status rc;

    if (text.size > 0 && text.data[0] == '@') {
        text.data++;
        text.size--;
        rc = read_time(text, &result);
    } else {
        rc = position_read(text, &result.at);
    }
    if (!rc)
        *place = result;
    return rc;
}

void
source_position_write(char to[TD_POSITION_SIZE],
                      const struct source_position *place)
{
    char time[DATETIME_SIZE + 1] = "";
    char mark[MARK_DIGITS + 2];

    if (place->is_time) {
        datetime_write(time, place->time_us);
        snprintf(mark, sizeof(mark), "~%016llx",
                 (unsigned long long)place->mark);
        snprintf(to, TD_POSITION_SIZE, "@%s+%llu%s", time,
                 (unsigned long long)place->n_at, place->mark ? mark : "");
    } else if (!place->at.epoch[0]) {
        to[number_write(to, place->at.seq)] = '\0';
    } else {
        position_write(to, place->at.epoch, place->at.seq);
    }
}
