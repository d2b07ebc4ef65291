#include "proto/mqtt_topic.h"

#include "proto/utf8.h"

#define TEXT_MAX_BYTES 65535

static bool
is_good(uint32_t c)
{
    return !utf8_is_control(c);
}

bool
mqtt_text_is_valid(struct slice text)
{
    return text.size > 0 && text.size <= TEXT_MAX_BYTES &&
           utf8_is_text(text, is_good);
}

bool
mqtt_topic_is_valid(struct slice name)
{
    return mqtt_text_is_valid(name) && !memchr(name.data, '+', name.size) &&
           !memchr(name.data, '#', name.size);
}

/* Takes the next level; *is_last: none follows, not even an empty one. */
static struct slice
take_level(struct slice *rest, bool *is_last)
{
    *is_last = rest->size == 0 || !memchr(rest->data, '/', rest->size);
    return slice_take(rest, '/');
}

bool
mqtt_filter_is_valid(struct slice filter)
{
    struct slice rest = filter;
    bool is_last = false;

    if (!mqtt_text_is_valid(filter))
        return false;
    while (!is_last) {
        struct slice level = take_level(&rest, &is_last);

        if (slice_is(level, "+") || (slice_is(level, "#") && is_last))
            continue;
        if (level.size > 0 && (memchr(level.data, '+', level.size) ||
                               memchr(level.data, '#', level.size)))
            return false;
    }
    return true;
}

bool
mqtt_filter_matches(struct slice filter, struct slice name)
{
    bool is_filter_last = false, is_name_last = false;

    if (name.size > 0 && name.data[0] == '$' && filter.size > 0 &&
        (filter.data[0] == '+' || filter.data[0] == '#'))
        return false;
    while (!is_filter_last) {
        struct slice wanted = take_level(&filter, &is_filter_last), level;

        if (slice_is(wanted, "#"))
            return true; /* also the level above: the name has ended */
        if (is_name_last)
            return false;
        level = take_level(&name, &is_name_last);
        if (!slice_is(wanted, "+") && !slice_equal(wanted, level))
            return false;
    }
    return is_name_last;
}

struct slice
mqtt_filter_level(struct slice filter, struct slice name)
{
    bool is_last = false;

    while (!is_last) {
        struct slice wanted = take_level(&filter, &is_last);
        struct slice level = slice_take(&name, '/');

        if (slice_is(wanted, "+"))
            return level;
    }
    return (struct slice){"", 0};
}
