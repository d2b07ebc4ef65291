#include "proto/input/data_read.h"

#include "proto/resourcesync/json.h"

void
data_read_begin(struct data_read *data)
{
    data->depth = 0;
    buf_clear_large(&data->text, JSON_KEPT_BYTES);
}

enum status
data_read_event(void *user, enum json_event event, struct slice text,
                struct problem *why)
{
    static const char brackets[] = {[JSON_OBJECT] = '{',
                                    [JSON_OBJECT_END] = '}',
                                    [JSON_ARRAY] = '[',
                                    [JSON_ARRAY_END] = ']'};
    bool is_end = event == JSON_OBJECT_END || event == JSON_ARRAY_END;
    bool is_begin = event == JSON_OBJECT || event == JSON_ARRAY;
    struct data_read *data = user;
    struct buf *to = &data->text;

    if (is_begin && data->depth == CHANGE_DATA_DEPTH_MAX)
        return problem(why, STATUS_INVALID, "nested deeper than %d",
                       CHANGE_DATA_DEPTH_MAX);
    data->depth += is_begin;
    data->depth -= is_end;
    if (!is_end && to->size > 0 && !strchr("{[:", to->data[to->size - 1]))
        BUF_ADD(to, ",");
    if (is_begin || is_end)
        buf_add(to, &brackets[event], 1);
    else if (event == JSON_KEY || event == JSON_STRING)
        json_text(to, text);
    else
        buf_add_slice(to, text);
    if (event == JSON_KEY)
        BUF_ADD(to, ":");
    if (to->is_starved)
        return problem_memory(why);
    return to->failed ? problem(why, STATUS_INVALID, "more than %d bytes",
                                ENTRY_BYTES_MAX)
                      : STATUS_OK;
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
    struct data_read data = {.text.max = ENTRY_BYTES_MAX};
    enum status rc = json_parse_text(text, data_read_event, &data, NULL);

    if (rc != STATUS_MEMORY &&
        (rc || !slice_equal(text, buf_slice(&data.text))))
        rc = STATUS_INVALID;
    buf_fini(&data.text);
    return rc;
}

enum status
data_read(struct entry *entry, struct slice json, struct problem *why)
{
    bool is_lent = entry->is_lent;
    struct data_read data = {.text.max = ENTRY_BYTES_MAX};
    enum status rc;

    if (slice_without_spaces(json).size == 0)
        return STATUS_OK;
    rc = json_parse_text(json, data_read_event, &data, why);
    if (why)
        why->line = 0; /* of the data */
    if (rc == STATUS_MALFORMED || rc == STATUS_INVALID)
        rc = problem_prefix(why, STATUS_INVALID, "data: ");
    if (!rc)
        rc = data_read_end(&data, entry, why);
    entry->is_lent = is_lent;
    buf_fini(&data.text);
    return rc;
}
