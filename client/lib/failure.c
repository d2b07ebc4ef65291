#include "client/lib/failure.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "proto/utf8.h"

void
failure_clear(struct failure *failure)
{
    failure->rc = TD_OK;
    failure->status = 0;
    failure->retry_after_s = 0;
    failure->is_limit = false;
    failure->text[0] = '\0';
}

/* Leaves UTF-8 that may stand on a terminal: U+0080 to U+009F are orders to it,
 * too. What was cut within a character ends before it. */
static void
clean(char *text, bool is_cut)
{
    char *end = text + strlen(text);

    while (text < end) {
        uint32_t c = 0;
        size_t size = utf8_read(text, (size_t)(end - text), &c);

        if (!size && is_cut && end - text < 4) {
            *text = '\0';
            return;
        }
        if (!size)
            *text = '?';
        else if (c < ' ' || (c >= 0x7f && c < 0xa0))
            memset(text, ' ', size);
        text += size ? size : 1;
    }
}

enum td_status
failure_vset(struct failure *failure, enum td_status rc, const char *format,
             va_list args)
{
    int size = vsnprintf(failure->text, sizeof(failure->text), format, args);

    failure->rc = rc;
    failure->is_limit = false;
    clean(failure->text, size >= (int)sizeof(failure->text));
    return rc;
}

enum td_status
failure_set(struct failure *failure, enum td_status rc, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    failure_vset(failure, rc, format, args);
    va_end(args);
    return rc;
}

enum td_status
failure_memory(struct failure *failure)
{
    return failure_set(failure, TD_MEMORY, "no memory");
}
