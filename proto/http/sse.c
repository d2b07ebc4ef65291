/*
 * sse.c - server-sent events, read as they arrive.
 *
 *     FIELD --":"--> BLANK --> VALUE --+
 *       |  ":" first, or a name that   |
 *       |  is none --> REST -----------+-- end of the line --> FIELD
 *       +------------------------------+
 *
 * The data of an event is not held twice: it goes where it is handed over from.
 */
#include "proto/http/sse.h"

#include "proto/number.h"
#include "proto/utf8.h"

enum {
    STATE_FIELD, /* the name of the field, from the beginning of the line */
    STATE_BLANK, /* behind the colon: one blank belongs to it */
    STATE_VALUE,
    STATE_REST /* nobody wants it */
};

void
sse_init(struct sse *s, size_t data_max)
{
    *s = (struct sse){.state = STATE_FIELD};
    buf_init(&s->data, data_max);
}

void
sse_fini(struct sse *s)
{
    buf_fini(&s->data);
}

static struct slice
slice_of_value(const struct sse_value *value)
{
    return (struct slice){value->text, value->size};
}

static bool
is_field(const struct sse *s, const char *name)
{
    return slice_is(slice_of_value(&s->field), name);
}

/* False: it is longer than a value may be. */
static bool
value_add(struct sse_value *value, struct slice bytes)
{
    if (bytes.size > sizeof(value->text) - value->size)
        return false;
    if (bytes.size > 0)
        memcpy(value->text + value->size, bytes.data, bytes.size);
    value->size += bytes.size;
    return true;
}

/* The name of the line's field is known. */
static void
begin_value(struct sse *s)
{
    s->value.size = 0;
    if (is_field(s, "data")) {
        if (s->has_data)
            BUF_ADD(&s->data, "\n");
        s->has_data = true;
        s->state = STATE_BLANK;
    } else if (is_field(s, "event") || is_field(s, "id") ||
               is_field(s, "retry")) {
        s->state = STATE_BLANK;
    } else {
        s->state = STATE_REST;
    }
}

/* Part of a line, without its end. */
static enum status
take_part(struct sse *s, struct slice part, struct problem *why)
{
    struct slice rest = part, name;

    if (part.size == 0)
        return STATUS_OK;
    switch (s->state) {
    case STATE_FIELD:
        name = slice_take(&rest, ':');
        if (!value_add(&s->field, name)) { /* no name that is known */
            s->field.size = 0;
            s->state = STATE_REST;
        } else if (name.size < part.size) {
            begin_value(s);
        }
        return take_part(s, rest, why);
    case STATE_BLANK:
        s->state = STATE_VALUE;
        slice_take_char(&part, ' ');
        return take_part(s, part, why);
    case STATE_VALUE:
        if (is_field(s, "data")) {
            buf_add_slice(&s->data, part);
        } else if (value_add(&s->value, part)) {
            return STATUS_OK;
        } else if (is_field(s, "id")) {
            s->field.size = 0;
            s->state = STATE_REST;
        } else {
            return problem(why, STATUS_TOO_LARGE,
                           "an event with a longer %.*s than %d bytes",
                           (int)s->field.size, s->field.text, SSE_VALUE_MAX);
        }
        return STATUS_OK;
    default:
        return STATUS_OK;
    }
}

/* The end of a line. Returns whether it was that of an event. */
static bool
end_line(struct sse *s)
{
    bool is_empty = s->state == STATE_FIELD && s->field.size == 0;
    uint64_t ms;

    if (s->state == STATE_FIELD)
        begin_value(s); /* a field without a colon has an empty value */
    if (is_field(s, "event"))
        s->name = s->value;
    if (is_field(s, "id") && !memchr(s->value.text, '\0', s->value.size))
        s->id = s->value;
    if (is_field(s, "retry") &&
        number_read_large(slice_of_value(&s->value), &ms))
        s->retry_ms = ms < SSE_RETRY_MAX ? (unsigned)ms : SSE_RETRY_MAX;
    s->field.size = 0;
    s->state = STATE_FIELD;
    if (!is_empty)
        return false;
    if (!s->has_data)
        s->name.size = 0; /* without data it is no event */
    return s->has_data;
}

/* The bytes before the next end of a line; `*has_end` where it is in there. */
static struct slice
take_line(struct slice *bytes, bool *has_end, char *end)
{
    struct slice part = {bytes->data, 0};

    while (part.size < bytes->size && part.data[part.size] != '\n' &&
           part.data[part.size] != '\r')
        part.size++;
    *has_end = part.size < bytes->size;
    if (*has_end)
        *end = part.data[part.size];
    slice_skip(bytes, part.size + *has_end);
    return part;
}

enum status
sse_read(struct sse *s, struct slice *bytes, struct sse_event *event,
         struct problem *why)
{
    bool has_end = false;
    char end = '\0';

    if (s->is_given) { /* drops the last event, and begins the next one */
        buf_clear(&s->data);
        s->name.size = 0;
        s->has_data = s->is_given = false;
    }
    if (!bom_skip(&s->bom, bytes))
        s->state = STATE_REST; /* half a mark: the line has no known name */
    while (bytes->size > 0) {
        struct slice part;
        enum status rc;

        if (s->is_after_cr && bytes->data[0] == '\n') {
            s->is_after_cr = false;
            slice_skip(bytes, 1);
            continue;
        }
        s->is_after_cr = false;
        part = take_line(bytes, &has_end, &end);
        rc = take_part(s, part, why);
        if (rc)
            return rc;
        if (s->data.is_starved)
            return problem_memory(why);
        if (s->data.failed)
            return problem(why, STATUS_TOO_LARGE,
                           "an event of more than %zu bytes", s->data.max);
        if (!has_end)
            break;
        s->is_after_cr = end == '\r';
        if (!end_line(s))
            continue;
        event->name =
            s->name.size > 0 ? slice_of_value(&s->name) : SLICE("message");
        event->id = slice_of_value(&s->id);
        event->data = s->data.data;
        event->size = s->data.size;
        s->is_given = true;
        return STATUS_OK;
    }
    return STATUS_AGAIN;
}
