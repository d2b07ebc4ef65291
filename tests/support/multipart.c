#include "tests/support/multipart.h"

void
multipart_body_open(struct multipart_body *m, const char *type,
                    const char *changes)
{
    buf_init(&m->bytes, SIZE_MAX);
    buf_add_format(&m->bytes, "--b-0\r\nContent-Type: %s\r\n\r\n%s", type,
                   changes);
}

void
multipart_body_add(struct multipart_body *m, const char *loc, const char *type,
                   struct slice content)
{
    buf_add_format(&m->bytes, "\r\n--b-0\r\nContent-Location: %s\r\n", loc);
    if (type)
        buf_add_format(&m->bytes, "Content-Type: %s\r\n", type);
    BUF_ADD(&m->bytes, "\r\n");
    buf_add_slice(&m->bytes, content);
}

void
multipart_body_close(struct multipart_body *m)
{
    BUF_ADD(&m->bytes, "\r\n--b-0--\r\n");
}

void
multipart_body_free(struct multipart_body *m)
{
    buf_fini(&m->bytes);
}
