#include "proto/base64.h"

#include <openssl/evp.h>

#include "proto/ascii.h"

long
base64_decode(struct slice text, unsigned char *to)
{
    size_t digits = text.size;

    if (text.size % 4 != 0 || text.size > INT_MAX)
        return -1;
    while (text.size - digits < 2 && digits > 0 && text.data[digits - 1] == '=')
        digits--;
    /* OpenSSL passes over white space around the text. */
    for (size_t i = 0; i < digits; i++)
        if (!ascii_is_alnum(text.data[i]) && text.data[i] != '+' &&
            text.data[i] != '/')
            return -1;
    if (EVP_DecodeBlock(to, (const unsigned char *)text.data, (int)text.size) <
        0)
        return -1;
    return (long)(BASE64_ROOM(text) - (text.size - digits));
}
