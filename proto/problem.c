#include "proto/problem.h"

#include "proto/buf.h"
#include "proto/shown_address.h"
#include "proto/utf8.h"

static void
clean_text(char *text, bool is_cut)
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
        else if (utf8_is_control(c))
            memset(text, ' ', size);
        text += size ? size : 1;
    }
}

static void
set_text(struct problem *why, const char *format, va_list arguments)
{
    int size;

    if (!why)
        return;
    size = vsnprintf(why->text, sizeof(why->text), format, arguments);
    if (size < 0)
        why->text[0] = '\0';
    clean_text(why->text, size >= (int)sizeof(why->text));
    shown_address(why->text);
}

void
problem_set(struct problem *why, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    set_text(why, format, arguments);
    va_end(arguments);
}

enum status
problem_vset(struct problem *why, enum status rc, const char *format,
             va_list arguments)
{
    set_text(why, format, arguments);
    if (why) {
        why->rc = rc;
        why->is_limit = false;
    }
    return rc;
}

enum status
problem(struct problem *why, enum status rc, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    problem_vset(why, rc, format, arguments);
    va_end(arguments);
    return rc;
}

enum status
problem_prefix(struct problem *why, enum status rc, const char *format, ...)
{
    struct problem inner;
    va_list arguments;

    if (!why)
        return rc;
    inner = *why;
    va_start(arguments, format);
    set_text(why, format, arguments);
    va_end(arguments);
    strncat(why->text, inner.text, sizeof(why->text) - strlen(why->text) - 1);
    clean_text(why->text, true);
    why->rc = rc;
    return rc;
}

void
problem_clear(struct problem *why)
{
    if (why)
        *why = (struct problem){.text = ""};
}

enum status
problem_errno(struct problem *why, const char *what, const char *name)
{
    int error = errno;
    char text[128];

    problem(why, STATUS_IO, "%s %s: %s", what, name,
            strerror_r(error, text, sizeof(text)));
    errno = error;
    return STATUS_IO;
}

struct problem_quote
problem_quote(struct slice text)
{
    struct problem_quote quote;
    size_t size = 0;

    while (text.size > 0) {
        uint32_t c = 0;
        size_t n = utf8_read(text.data, text.size, &c);
        bool is_safe = n > 0 && !utf8_is_control(c);
        size_t taken = n > 0 ? n : 1;

        if (size + (is_safe ? n : 1) > PROBLEM_QUOTE_MAX)
            break;
        if (is_safe) {
            memcpy(quote.text + size, text.data, n);
            size += n;
        } else {
            quote.text[size++] = '?';
        }
        slice_skip(&text, taken);
    }

    /* The three bytes beyond PROBLEM_QUOTE_MAX show that there was more. */
    if (text.size > 0) {
        memcpy(quote.text + size, "...", 3);
        size += 3;
    }
    quote.text[size] = '\0';
    return quote;
}

enum status
problem_quoting(struct problem *why, enum status rc, const char *what,
                struct slice quoted)
{
    return problem(why, rc, "%s: \"%s\"", what, problem_quote(quoted).text);
}

enum status
problem_memory(struct problem *why)
{
    static const struct problem memory = PROBLEM_MEMORY;

    if (why)
        *why = memory;
    return STATUS_MEMORY;
}

enum status
problem_buf(struct problem *why, const struct buf *b, const char *what)
{
    if (!b->failed)
        return STATUS_OK;
    return b->is_starved ? problem_memory(why)
                         : problem(why, STATUS_TOO_LARGE,
                                   "%s is longer than %zu bytes", what, b->max);
}
