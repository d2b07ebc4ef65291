#include "broker/http/accept.h"

#include <string.h>
#include <strings.h>

static struct slice
trimmed(struct slice s)
{
    while (s.size && strchr(" \t", s.data[0])) {
        s.data++;
        s.size--;
    }
    while (s.size && strchr(" \t", s.data[s.size - 1]))
        s.size--;
    return s;
}

/* Takes what stands before the next `separator` that is not within quotes;
 * false: nothing is left. */
static bool
next_part(struct slice *rest, char separator, struct slice *part)
{
    bool is_quoted = false;
    size_t n = 0;

    if (!rest->size)
        return false;
    for (; n < rest->size && (is_quoted || rest->data[n] != separator); n++)
        if (rest->data[n] == '"')
            is_quoted = !is_quoted;
        else if (rest->data[n] == '\\' && is_quoted && n + 1 < rest->size)
            n++;
    *part = trimmed((struct slice){rest->data, n});
    n += n < rest->size; /* the separator */
    rest->data += n;
    rest->size -= n;
    return true;
}

static bool
is_word(struct slice s, const char *word)
{
    return s.size == strlen(word) && !strncasecmp(s.data, word, s.size);
}

/* "q=0", "Q=0.000": not acceptable. */
static bool
is_quality_0(struct slice parameter)
{
    if (parameter.size < 3 || (parameter.data[0] | 0x20) != 'q' ||
        parameter.data[1] != '=' || parameter.data[2] != '0')
        return false;
    for (size_t i = 3; i < parameter.size; i++)
        if (!strchr(i == 3 ? "." : "0", parameter.data[i]))
            return false;
    return true;
}

bool
accept_names(struct slice accept, const char *type)
{
    struct slice range, part;

    while (next_part(&accept, ',', &range)) {
        bool is_refused = false;

        if (!next_part(&range, ';', &part) || !is_word(part, type))
            continue;
        while (next_part(&range, ';', &part))
            is_refused = is_refused || is_quality_0(part);
        if (!is_refused)
            return true;
    }
    return false;
}
