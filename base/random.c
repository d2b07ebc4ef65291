#include "base/random.h"

#include <sys/random.h>

bool
random_hex(char *to, size_t size)
{
    static const char digits[] = "0123456789abcdef";

    /* Up to 256 bytes a read is never short. */
    for (size_t done = 0, n; done < size; done += n) {
        n = size - done < 256 ? size - done : 256;
        if (getrandom(to + done, n, 0) < 0)
            return false;
    }
    for (size_t i = 0; i + 1 < size; i++)
        to[i] = digits[to[i] & 15];
    to[size - 1] = '\0';
    return true;
}

uint32_t
random_u32(void)
{
    uint32_t n;

    return getrandom(&n, sizeof(n), GRND_NONBLOCK) == sizeof(n)
               ? n
               : UINT32_MAX / 2;
}
