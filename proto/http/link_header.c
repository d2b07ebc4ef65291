#include "proto/http/link_header.h"

/* The value of a parameter: quoted, without the quotes, or unquoted. False: the
 * quotes do not end. */
static bool
take_value(struct slice *rest, struct slice *value)
{
    size_t i = 1;

    slice_skip_blanks(rest);
    if (rest->size == 0 || rest->data[0] != '"') {
        *value = slice_trimmed(slice_take_until(rest, ";,"));
        return true;
    }
    while (i < rest->size && rest->data[i] != '"')
        i += rest->data[i] == '\\' ? 2 : 1;
    if (i >= rest->size)
        return false;
    *value = (struct slice){rest->data + 1, i - 1};
    slice_skip(rest, i + 1);
    return true;
}

/* RFC 8288 appendix B.2 and B.3, but for quotes that do not end, which are
 * malformed here. */
bool
weblink_next(struct slice *rest, struct weblink *link)
{
    bool has_rel = false;

    *link = (struct weblink){.is_of_another = false};
    while (rest->size > 0 &&
           (slice_is_blank(rest->data[0]) || rest->data[0] == ','))
        slice_skip(rest, 1);
    if (!slice_take_char(rest, '<'))
        return false;
    link->target = slice_take_until(rest, ">");
    if (!slice_take_char(rest, '>'))
        return false;

    for (;;) {
        struct slice name, value = {NULL, 0};

        slice_skip_blanks(rest);
        if (rest->size == 0 || rest->data[0] == ',')
            return true;
        if (!slice_take_char(rest, ';'))
            return false;
        name = slice_trimmed(slice_take_until(rest, "=;,"));
        if (slice_take_char(rest, '=') && !take_value(rest, &value))
            return false;
        /* RFC 8288 section 3.3: the first one counts. */
        if (slice_is_word(name, "rel") && !has_rel) {
            link->rel = value;
            has_rel = true;
        } else if (slice_is_word(name, "anchor")) {
            link->is_of_another = true;
        }
    }
}

bool
weblink_find(struct slice header, const char *rel, struct slice *target,
             size_t *n)
{
    struct weblink link;
    size_t found = 0;

    *target = (struct slice){NULL, 0};
    while (weblink_next(&header, &link))
        if (!link.is_of_another && slice_has_word(link.rel, rel) &&
            found++ == 0)
            *target = link.target;
    if (n)
        *n = found;
    return found > 0;
}

void
weblink_add(struct buf *to, struct slice target, const char *rel)
{
    if (to->size > 0)
        BUF_ADD(to, ", ");
    BUF_ADD(to, "<");
    buf_add_slice(to, target);
    BUF_ADD(to, ">; rel=\"");
    buf_add_text(to, rel);
    BUF_ADD(to, "\"");
}
