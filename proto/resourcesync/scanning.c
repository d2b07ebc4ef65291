#include "proto/resourcesync/scanning.h"

#include "proto/utf8.h"

static _Atomic(bool) is_off;

void
scanning_switch(bool is_on)
{
    is_off = !is_on;
}

bool
scanning_is_on(void)
{
    return !is_off;
}

bool
scanning_is_text(struct slice text)
{
    while (text.size > 0) {
        uint32_t c;
        size_t n = utf8_read(text.data, text.size, &c);

        if (n == 0 || c == 0xfffe || c == 0xffff)
            return false;
        slice_skip(&text, n);
    }
    return true;
}
