#include "proto/input/data_read.h"

#include "proto/resourcesync/json.h"

void
data_read_init(struct data_read *data)
{
    data->depth = 0;
    buf_init(&data->text, ENTRY_BYTES_MAX);
}

void
data_read_fini(struct data_read *data)
{
    buf_fini(&data->text);
}

void
data_read_begin(struct data_read *data)
{
    data->depth = 0;
    buf_clear_large(&data->text, JSON_KEPT_BYTES);
}

static enum status
open_value(struct data_read *data, const char *bracket, struct problem *why)
{
    if (data->depth == CHANGE_DATA_DEPTH_MAX)
        return problem(why, STATUS_INVALID, "nested deeper than %d",
                       CHANGE_DATA_DEPTH_MAX);
    data->depth++;
    buf_add_text(&data->text, bracket);
    return STATUS_OK;
}

/* Puts a comma behind the value before, if there is one. */
static void
separate(struct data_read *data)
{
    const struct buf *text = &data->text;

    if (text->size > 0 && !strchr("{[:", text->data[text->size - 1]))
        BUF_ADD(&data->text, ",");
}

enum status
data_read_event(void *user, enum json_event event, struct slice text,
                struct problem *why)
{
    struct data_read *data = user;
    struct buf *to = &data->text;
    enum status rc = STATUS_OK;

    if (event != JSON_OBJECT_END && event != JSON_ARRAY_END)
        separate(data);
    switch (event) {
    case JSON_OBJECT:
        rc = open_value(data, "{", why);
        break;
    case JSON_ARRAY:
        rc = open_value(data, "[", why);
        break;
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        data->depth--;
        buf_add_text(to, event == JSON_OBJECT_END ? "}" : "]");
        break;
    case JSON_KEY:
        json_text(to, text);
        BUF_ADD(to, ":");
        break;
    case JSON_STRING:
        json_text(to, text);
        break;
    default:
        buf_add_slice(to, text);
    }
    if (to->is_starved)
        return problem_memory(why);
    if (to->failed)
        return problem(why, STATUS_INVALID, "more than %d bytes",
                       ENTRY_BYTES_MAX);
    return rc;
}

enum status
data_read_end(const struct data_read *data, struct entry *entry,
              struct problem *why)
{
    struct slice text = buf_slice(&data->text);

    entry->is_lent = false;
    return slice_is(text, "null")
               ? STATUS_OK
               : entry_set(entry, NULL, M_DATA, "data", text, why);
}

enum status
data_check(struct slice text)
{
    struct data_read data;
    enum status rc;

    data_read_init(&data);
    rc = json_parse_text(text, data_read_event, &data, NULL);
    if (rc != STATUS_MEMORY &&
        (rc || !slice_equal(text, buf_slice(&data.text))))
        rc = STATUS_INVALID;
    data_read_fini(&data);
    return rc;
}

enum status
data_read(struct entry *entry, struct slice json, struct problem *why)
{
    bool is_lent = entry->is_lent;
    struct data_read data;
    enum status rc;

    if (slice_without_spaces(json).size == 0)
        return STATUS_OK;
    data_read_init(&data);
    rc = json_parse_text(json, data_read_event, &data, why);
    if (why)
        why->line = 0; /* of the data */
    if (rc == STATUS_MALFORMED || rc == STATUS_INVALID)
        rc = problem_prefix(why, STATUS_INVALID, "data: ");
    if (!rc)
        rc = data_read_end(&data, entry, why);
    entry->is_lent = is_lent;
    data_read_fini(&data);
    return rc;
}
