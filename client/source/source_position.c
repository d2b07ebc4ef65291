#include "client/source/source_position.h"

#include "proto/number.h"

/* Reads sixteen hexadecimal digits, in lower case: an epoch is such a text. */
static enum status
read_mark(struct slice text, uint64_t *mark)
{
    char digits[EPOCH_SIZE + 1];

    if (!epoch_is_valid(text) || !slice_copy(digits, sizeof(digits), text))
        return STATUS_MALFORMED;
    *mark = strtoull(digits, NULL, 16);
    return STATUS_OK;
}

/* "TIME", "TIME+N", "TIME+N~MARK" or one of these and "/LIST:N:SUM" or
 * "/LIST:N:SUM:w", and perhaps "!MICROSECONDS", after the "@". */
static enum status
read_timed(struct slice whole, struct source_position *place)
{
    struct slice unknown = whole;
    struct slice text = slice_take(&unknown, '!');
    struct slice list = text;
    struct slice count = slice_take(&list, '/');
    size_t size = count.size;
    struct slice time = slice_take(&count, '+');
    struct slice number;
    uint64_t us = 0;

    if (text.size < whole.size &&
        (!number_read(unknown, &us) || us > INT64_MAX))
        return STATUS_MALFORMED;
    place->unknown_us = (int64_t)us;
    place->is_time = true;
    place->has_list = size < text.size;
    if (place->has_list) {
        if (read_mark(slice_take(&list, ':'), &place->list) ||
            !number_read(slice_take(&list, ':'), &place->n_read) ||
            read_mark(slice_take(&list, ':'), &place->sum))
            return STATUS_MALFORMED;
        place->is_within = slice_is(list, "w");
        if (list.size > 0 && !place->is_within)
            return STATUS_MALFORMED;
    }
    if (time.size < size) {
        number = slice_take(&count, '~');
        if (!number_read(number, &place->n_at) ||
            (count.size > 0 && read_mark(count, &place->mark)))
            return STATUS_MALFORMED;
    }
    if (slice_is(time, "-"))
        return STATUS_OK; /* DATETIME_NONE */
    /* source_position_write uses "Z": an offset would have another "+". */
    return !slice_ends(time, "Z") || datetime_read(time, &place->time_us)
               ? STATUS_MALFORMED
               : STATUS_OK;
}

enum status
source_position_read(struct slice text, struct source_position *place)
{
    struct source_position result = {.time_us = DATETIME_NONE};
    enum status rc = slice_take_char(&text, '@')
                         ? read_timed(text, &result)
                         : position_read(text, &result.at);

    if (!rc)
        *place = result;
    return rc;
}

enum status
source_mark_read(struct slice text, struct source_position *place,
                 const char **digest)
{
    size_t size = text.size;
    struct slice position = slice_take(&text, ' ');
    bool has_digest = position.size < size;
    struct digest d;

    if (has_digest && digest_read(text, &d))
        return STATUS_MALFORMED;
    *digest = has_digest ? text.data : NULL;
    return source_position_read(position, place);
}

void
source_position_write(char to[TD_POSITION_SIZE],
                      const struct source_position *place)
{
    char time[DATETIME_SIZE + 1] = {'-'};
    char mark[EPOCH_SIZE + 2] = "";
    char list[2 * EPOCH_SIZE + 32] = "";
    char unknown[24] = "";

    if (!place->is_time && place->at.epoch[0]) {
        position_write(to, place->at.epoch, place->at.seq);
        return;
    }
    if (!place->is_time) {
        to[number_write(to, place->at.seq)] = '\0';
        return;
    }
    if (place->time_us != DATETIME_NONE)
        datetime_write(time, place->time_us);
    if (place->mark)
        snprintf(mark, sizeof(mark), "~%016" PRIx64, place->mark);
    if (place->has_list)
        snprintf(list, sizeof(list),
                 "/%016" PRIx64 ":%" PRIu64 ":%016" PRIx64 "%s", place->list,
                 place->n_read, place->sum, place->is_within ? ":w" : "");
    if (place->unknown_us > 0)
        snprintf(unknown, sizeof(unknown), "!%" PRId64, place->unknown_us);
    /* There is room for counts of eleven digits. */
    if (snprintf(to, TD_POSITION_SIZE, "@%s+%" PRIu64 "%s%s%s", time,
                 place->n_at, mark, list, unknown) >= TD_POSITION_SIZE)
        snprintf(to, TD_POSITION_SIZE, "@%s", time);
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

enum status
source_position_has_none(struct problem *why, enum status rc, int64_t as_of_us,
                         int64_t earliest_us)
{
    struct datetime_text as_of = datetime_text_short(as_of_us);
    struct datetime_text earliest = datetime_text_short(earliest_us);

    if (earliest_us == DATETIME_NONE && rc == STATUS_GONE)
        return problem(why, rc,
                       "the source has no list of %s, and not all changes",
                       as_of.text);
    return problem(
        why, rc, "the source has no state of %s: there are those from %s on",
        as_of.text,
        earliest.text[0] ? earliest.text : "the beginning of its history");
}
