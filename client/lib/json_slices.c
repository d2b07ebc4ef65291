/*
 * json_slices.c - cuts JSON text into its pieces.
 */
#include "client/lib/json_slices.h"

static void
skip_space(struct slice *rest)
{
    while (rest->size && slice_is_space(rest->data[0]))
        slice_skip(rest, 1);
}

/* Bytes of the string that `text` begins with, quotes included; 0: none. */
static size_t
string_size(struct slice text)
{
    const char *at = text.data + 1, *end = text.data + text.size;
    const char *quote, *escape;

    if (!text.size || text.data[0] != '"')
        return 0;
    while (at < end && (quote = memchr(at, '"', (size_t)(end - at)))) {
        escape = memchr(at, '\\', (size_t)(quote - at));
        if (!escape)
            return (size_t)(quote + 1 - text.data);
        at = escape + 2;
    }
    return 0;
}

/* Moves `rest` past the value it begins with. */
static bool
take_value(struct slice *rest, struct slice *value)
{
    size_t depth = 0;
    size_t i = 0;

    skip_space(rest);
    while (i < rest->size) {
        char c = rest->data[i];

        if (c == '"') {
            size_t size = string_size(slice_from(*rest, i));

            if (!size)
                return false;
            i += size;
        } else if (c == '[' || c == '{') {
            depth++;
            i++;
        } else if (c == ']' || c == '}') {
            if (!depth)
                break;
            depth--;
            i++;
        } else if (depth || (c != ',' && c != ':' && c > ' ')) {
            i++;
            continue;
        } else {
            break;
        }
        if (!depth)
            break;
    }
    *value = (struct slice){rest->data, i};
    slice_skip(rest, i);
    return i > 0 && depth == 0;
}

/* Steps into a list, or past the comma before its next part. */
static bool
step_over(struct slice *rest, char open)
{
    skip_space(rest);
    if (!slice_take_char(rest, open) && !slice_take_char(rest, ','))
        return false;
    skip_space(rest);
    return rest->size && rest->data[0] != ']' && rest->data[0] != '}';
}

bool
json_slices_element(struct slice *rest, struct slice *value)
{
    return step_over(rest, '[') && take_value(rest, value);
}

bool
json_slices_next(struct slice *rest, struct slice *name, struct slice *value)
{
    size_t size;

    if (!step_over(rest, '{'))
        return false;
    size = string_size(*rest);
    if (!size)
        return false;
    *name = (struct slice){rest->data + 1, size - 2};
    slice_skip(rest, size);
    skip_space(rest);
    return slice_take_char(rest, ':') && take_value(rest, value);
}

bool
json_slices_member(struct slice object, const char *name, struct slice *value)
{
    struct slice rest = object, key;

    while (json_slices_next(&rest, &key, value))
        if (slice_is(key, name))
            return true;
    return false;
}

struct slice
json_slices_text(struct slice value)
{
    if (value.size < 2 || value.data[0] != '"')
        return SLICE("");
    return (struct slice){value.data + 1, value.size - 2};
}
