#include "proto/http/idempotency_key.h"

static bool
is_visible(char c)
{
    return c > ' ' && c < 0x7f;
}

bool
key_is_valid(struct slice text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!is_visible(text.data[i]))
            return false;
    return text.size > 0 && text.size <= KEY_SIZE_MAX;
}

/* "abc", where \" stands for a quote and \\ for a backslash, and no other
 * backslash stands (RFC 8941 section 4.2.5). Nothing may follow. */
static bool
read_quoted(struct slice value, struct key *key)
{
    size_t i = 1;

    while (i < value.size && value.data[i] != '"') {
        if (value.data[i] == '\\' &&
            (++i == value.size ||
             (value.data[i] != '"' && value.data[i] != '\\')))
            return false;
        if (key->size == KEY_SIZE_MAX || !is_visible(value.data[i]))
            return false;
        key->text[key->size++] = value.data[i++];
    }
    return key->size > 0 && i + 1 == value.size;
}

enum status
key_read(struct slice value, struct key *key, struct problem *why)
{
    bool is_good;

    key->owner[0] = '\0';
    key->size = 0;
    if (value.size > 0 && value.data[0] == '"') {
        is_good = read_quoted(value, key);
    } else {
        is_good = key_is_valid(value);
        if (is_good) {
            memcpy(key->text, value.data, value.size);
            key->size = value.size;
        }
    }
    if (is_good)
        return STATUS_OK;
    key->size = 0;
    return problem(why, STATUS_MALFORMED,
                   "Idempotency-Key is not 1 to %d visible ASCII characters, "
                   "bare or as one quoted string: \"%s\"",
                   KEY_SIZE_MAX, problem_quote(value).text);
}

size_t
key_write(char to[KEY_QUOTED_MAX], struct slice key)
{
    char *p = to;

    *p++ = '"';
    for (size_t i = 0; i < key.size; i++) {
        if (key.data[i] == '"' || key.data[i] == '\\')
            *p++ = '\\';
        *p++ = key.data[i];
    }
    *p++ = '"';
    return (size_t)(p - to);
}
