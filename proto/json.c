#include "proto/json.h"

#include "proto/swar.h"

/* How many bytes a byte takes beyond its own in a JSON string. */
static const unsigned char extra[256] = {
    [0 ... 0x1f] = 5, /* as \u00XX */
    ['"'] = 1,
    ['\\'] = 1,
};

static char *
escape_letter(char *to, char c)
{
    static const char digits[] = "0123456789abcdef";

    *to++ = '\\';
    if (c == '"' || c == '\\') {
        *to++ = c;
        return to;
    }
    memcpy(to, "u00", 3);
    to[3] = digits[(unsigned char)c >> 4];
    to[4] = digits[c & 15];
    return to + 5;
}

static inline uint64_t
is_special(uint64_t v)
{
    return swar_below(v, 0x20) | swar_equal(v, '"') | swar_equal(v, '\\');
}

void
json_string(struct buf *to, struct slice text)
{
    size_t more = 2;
    char *p;

    if (!swar_none(text, is_special, ' '))
        for (size_t i = 0; i < text.size; i++)
            more += extra[(unsigned char)text.data[i]];
    p = buf_room(to, text.size + more);
    if (!p)
        return;
    to->size += text.size + more;

    *p++ = '"';
    if (more == 2) {
        if (text.size > 0)
            memcpy(p, text.data, text.size);
        p += text.size;
    } else {
        for (size_t i = 0; i < text.size; i++) {
            char c = text.data[i];

            if (extra[(unsigned char)c])
                p = escape_letter(p, c);
            else
                *p++ = c;
        }
    }
    *p = '"';
}
