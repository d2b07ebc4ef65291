#include "proto/token.h"

const bool token_char[256] = {
    ['!'] = true,         ['#'] = true,         ['$'] = true,
    ['%'] = true,         ['&'] = true,         ['\''] = true,
    ['*'] = true,         ['+'] = true,         ['-'] = true,
    ['.'] = true,         ['^'] = true,         ['_'] = true,
    ['`'] = true,         ['|'] = true,         ['~'] = true,
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
};

bool
token_take_value(struct slice *rest, char *to, size_t room, size_t *size)
{
    bool is_quoted = slice_take_char(rest, '"');

    for (*size = 0; rest->size > 0; slice_skip(rest, 1), ++*size) {
        if (is_quoted ? rest->data[0] == '"'
                      : !token_char[(unsigned char)rest->data[0]])
            break;
        if (is_quoted && slice_take_char(rest, '\\') && rest->size == 0)
            return false;
        if (slice_is_control(rest->data[0]))
            return false;
        if (*size < room)
            to[*size] = rest->data[0];
    }
    return is_quoted ? slice_take_char(rest, '"') : *size > 0;
}
