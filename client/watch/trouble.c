/*
 * trouble.c - why a watch cannot go on.
 */
#include "client/watch/trouble.h"

#include <stdarg.h>
#include <stdio.h>

void
trouble_set(struct trouble *trouble, const char *format, ...)
{
    va_list args;

    if (trouble->text[0])
        return;
    va_start(args, format);
    vsnprintf(trouble->text, sizeof(trouble->text), format, args);
    va_end(args);
    for (char *p = trouble->text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
}
