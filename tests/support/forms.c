#include "tests/support/forms.h"

#include <stdio.h>

#include "tests/support/hub.h"
#include "tests/test.h"

long
forms_post(struct http *h, const char *path, const char *format, ...)
{
    char body[16384];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(body, sizeof(body), format, args);
    va_end(args);
    assert_in_range(n, 0, sizeof(body) - 1);
    return http_post(h, path, HUB_FORM, slice_of(body));
}

void
forms_encode(char *to, size_t size, const char *text)
{
    struct buf encoded;

    buf_init(&encoded, size - 1);
    hub_encode(&encoded, text);
    assert_false(encoded.failed);
    snprintf(to, size, "%.*s", SLICE_ARG(buf_slice(&encoded)));
    buf_fini(&encoded);
}
