#include "client/source/source_position.h"

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

/* "LIST:N:SUM" or "LIST:N:SUM:w" */
static enum status
read_list(struct slice text, struct source_position *place)
{
    place->has_list = true;
    if (read_mark(slice_take(&text, ':'), &place->list) ||
        !number_read(slice_take(&text, ':'), &place->n_read) ||
        read_mark(slice_take(&text, ':'), &place->sum))
        return STATUS_MALFORMED;
    place->is_within = slice_is(text, "w");
    return text.size == 0 || place->is_within ? STATUS_OK : STATUS_MALFORMED;
}

/* source_position_write uses "Z": an offset would have another "+". */
static enum status
read_time(struct slice text, int64_t *time_us)
{
    if (slice_is(text, "-"))
        return STATUS_OK; /* DATETIME_NONE */
    if (text.size == 0 || text.data[text.size - 1] != 'Z')
        return STATUS_MALFORMED;
    return datetime_read(text, time_us) ? STATUS_MALFORMED : STATUS_OK;
}

/* "TIME", "TIME+N", "TIME+N~MARK" or one of these and "/LIST...", after the
 * "@". */
static enum status
read_timed(struct slice text, struct source_position *place)
{
    struct slice list = text;
    struct slice count = slice_take(&list, '/');
    size_t size = count.size;
    struct slice time = slice_take(&count, '+');
    struct slice number;

    place->is_time = true;
    if (size < text.size && read_list(list, place))
        return STATUS_MALFORMED;
    if (time.size < size) {
        number = slice_take(&count, '~');
        if (!number_read(number, &place->n_at) ||
            (count.size > 0 && read_mark(count, &place->mark)))
            return STATUS_MALFORMED;
    }
    return read_time(time, &place->time_us);
}

enum status
source_position_read(struct slice text, struct source_position *place)
{
    struct source_position result = {.time_us = DATETIME_NONE};
    enum status rc;

    if (text.size > 0 && text.data[0] == '@') {
        text.data++;
        text.size--;
        rc = read_timed(text, &result);
    } else {
        rc = position_read(text, &result.at);
    }
    if (!rc)
        *place = result;
    return rc;
}

static void
write_timed(char to[TD_POSITION_SIZE], const struct source_position *place)
{
    char time[DATETIME_SIZE + 1] = {'-'};
    char mark[MARK_DIGITS + 2] = "";
    char list[2 * MARK_DIGITS + 32] = "";

    if (place->time_us != DATETIME_NONE)
        datetime_write(time, place->time_us);
    if (place->mark)
        snprintf(mark, sizeof(mark), "~%016" PRIx64, place->mark);
    if (place->has_list)
        snprintf(list, sizeof(list),
                 "/%016" PRIx64 ":%" PRIu64 ":%016" PRIx64 "%s", place->list,
                 place->n_read, place->sum, place->is_within ? ":w" : "");
    snprintf(to, TD_POSITION_SIZE, "@%s+%" PRIu64 "%s%s", time, place->n_at,
             mark, list);
}

void
source_position_write(char to[TD_POSITION_SIZE],
                      const struct source_position *place)
{
    if (place->is_time)
        write_timed(to, place);
    else if (!place->at.epoch[0])
        to[number_write(to, place->at.seq)] = '\0';
    else
        position_write(to, place->at.epoch, place->at.seq);
}

bool
source_position_is_old(const struct source_position *place)
{
    return place->is_time && !place->has_list && place->mark;
}

bool
source_position_is_moment(const struct source_position *place)
{
    return place->is_time && !place->has_list;
}
