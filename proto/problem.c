#include "proto/problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/utf8.h"

/* A text that was cut ends with a whole character. */
static void
cut_at_character(char *text, size_t size)
{
    size_t at = size;
    uint32_t c;

    while (at > 0 && ((unsigned char)text[at - 1] & 0xc0) == 0x80)
        at--;
    if (at > 0 && (unsigned char)text[at - 1] >= 0xc0 &&
        !utf8_read(text + at - 1, size - at + 1, &c))
        text[at - 1] = '\0';
}

static void
set(struct problem *why, const char *format, va_list arguments)
{
    int size;

    if (!why)
        return;
    size = vsnprintf(why->text, sizeof(why->text), format, arguments);
    if (size < 0)
        why->text[0] = '\0';
    else if ((size_t)size >= sizeof(why->text))
        cut_at_character(why->text, sizeof(why->text) - 1);
}

void
problem_set(struct problem *why, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    set(why, format, arguments);
    va_end(arguments);
}

enum status
problem(struct problem *why, enum status rc, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    set(why, format, arguments);
    va_end(arguments);
    return rc;
}

void
problem_errno(struct problem *why, const char *what, const char *name)
{
    int error = errno;
    char text[128];

    problem_set(why, "%s %s: %s", what, name,
                strerror_r(error, text, sizeof(text)));
    errno = error;
}

struct problem_quote
problem_quote(struct slice text)
{
    struct problem_quote quote;
    size_t size = 0;

    while (text.size > 0) {
        uint32_t c = 0;
        size_t n = utf8_read(text.data, text.size, &c);
        bool is_safe = n > 0 && c >= 0x20 && !(c >= 0x7f && c < 0xa0);
        size_t taken = n > 0 ? n : 1;

        if (size + (is_safe ? n : 1) > PROBLEM_QUOTE_MAX)
            break;
        if (is_safe) {
            memcpy(quote.text + size, text.data, n);
            size += n;
        } else {
            quote.text[size++] = '?';
        }
        text.data += taken;
        text.size -= taken;
    }

    /* The three bytes beyond PROBLEM_QUOTE_MAX tell that there was more. */
    if (text.size > 0) {
        memcpy(quote.text + size, "...", 3);
        size += 3;
    }
    quote.text[size] = '\0';
    return quote;
}

enum status
problem_memory(struct problem *why)
{
    static const struct problem memory = PROBLEM_MEMORY;

    if (why)
        *why = memory;
    return STATUS_MEMORY;
}
