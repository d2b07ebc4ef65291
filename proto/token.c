#include "proto/token.h"

const bool token_char[256] = {
    ['!'] = true,         ['#'] = true,         ['$'] = true,
    ['%'] = true,         ['&'] = true,         ['\''] = true,
    ['*'] = true,         ['+'] = true,         ['-'] = true,
    ['.'] = true,         ['^'] = true,         ['_'] = true,
    ['`'] = true,         ['|'] = true,         ['~'] = true,
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
};
