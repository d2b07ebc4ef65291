#include "proto/urlencoded.h"

#include <openssl/crypto.h>

#include "proto/uri.h"
#include "proto/utf8.h"

/* Decodes in place: `raw` lies in the form's own bytes, `name`, which the
 * problem quotes, does not lie in `raw`. */
static enum status
decode_value(struct slice raw, struct slice name, struct slice *to,
             struct problem *why)
{
    char *start = (char *)(uintptr_t)raw.data;
    long size = uri_decode(raw, start);
    struct slice rest;
    uint32_t c;

    if (size < 0)
        return problem(why, STATUS_MALFORMED,
                       "form: a bad escape or a NUL in \"%s\"",
                       problem_quote(name).text);
    *to = rest = (struct slice){start, (size_t)size};
    while (rest.size > 0) {
        size_t n = utf8_read(rest.data, rest.size, &c);

        if (n == 0)
            return problem(why, STATUS_MALFORMED, "form: no UTF-8 in \"%s\"",
                           problem_quote(name).text);
        slice_skip(&rest, n);
    }
    return STATUS_OK;
}

enum status
urlencoded_read(struct urlencoded_data *form, struct slice body,
                struct problem *why)
{
    struct slice rest;

    *form = (struct urlencoded_data){
        .bytes = memory_room(body.size > 0 ? body.size : 1),
        .n_bytes = body.size,
    };
    if (!form->bytes)
        return STATUS_MEMORY;
    /* Then only escapes are left to decode. */
    for (size_t i = 0; i < body.size; i++)
        form->bytes[i] = body.data[i] == '+' ? ' ' : body.data[i];

    rest = (struct slice){form->bytes, body.size};
    while (rest.size > 0) {
        struct slice value = slice_take(&rest, '&');
        struct slice name, given;
        struct urlencoded_field *field;
        enum status rc;

        if (value.size == 0)
            continue;
        if (form->n == URLENCODED_FIELDS_MAX)
            return problem(why, STATUS_MALFORMED, "form: more than %d fields",
                           URLENCODED_FIELDS_MAX);
        name = slice_take(&value, '=');
        given =
            (struct slice){body.data + (name.data - form->bytes), name.size};
        field = &form->fields[form->n];
        rc = decode_value(name, given, &field->name, why);
        if (!rc)
            rc = decode_value(value, field->name, &field->value, why);
        if (rc)
            return rc;
        form->n++;
    }
    return STATUS_OK;
}

void
urlencoded_fini(struct urlencoded_data *form)
{
    if (form->bytes)
        OPENSSL_cleanse(form->bytes, form->n_bytes);
    free(form->bytes);
    *form = (struct urlencoded_data){.bytes = NULL};
}

bool
urlencoded_get(const struct urlencoded_data *form, const char *name,
               struct slice *value)
{
    *value = (struct slice){NULL, 0};
    for (size_t i = 0; i < form->n; i++)
        if (slice_is(form->fields[i].name, name)) {
            *value = form->fields[i].value;
            return true;
        }
    return false;
}

static void
add_encoded(struct buf *to, struct slice text)
{
    char encoded[3];

    for (size_t i = 0; i < text.size; i++)
        buf_add(to, encoded,
                uri_encode((struct slice){&text.data[i], 1}, encoded));
}

void
urlencoded_add(struct buf *to, const char *name, struct slice value)
{
    if (to->size > 0 && to->data[to->size - 1] != '?' &&
        to->data[to->size - 1] != '&')
        BUF_ADD(to, "&");
    add_encoded(to, slice_of(name));
    BUF_ADD(to, "=");
    add_encoded(to, value);
}
