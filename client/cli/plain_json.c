/*
 * plain_json.c - JSON of a broker as text.
 */
#include "client/cli/plain_json.h"

#include <stdio.h>
#include <string.h>

#include "client/lib/json_fields.h"
#include "client/lib/json_slices.h"

void
plain_json_text(struct slice object, const char *name, char *to, size_t size)
{
    struct slice value;
    struct json_fields_member member = {.name = name, .text = to, .size = size};

    to[0] = '\0';
    if (!json_slices_member(object, name, &value) || !value.size)
        return;
    if (value.data[0] == '"')
        json_fields_read(object, &member, 1);
    else if (!strchr("{[", value.data[0]) && !slice_is(value, "null"))
        snprintf(to, size, "%.*s", SLICE_ARG(value));
}

void
plain_json_line(struct slice json)
{
    json = slice_without_spaces(json);
    for (size_t i = 0; i < json.size; i++) {
        unsigned char c = (unsigned char)json.data[i];

        if (c == '\n' || c == '\r' || c == '\t') /* never inside strings */
            putchar(' ');
        else if (c == 0x7f)
            fputs("\\u007f", stdout);
        else if (c == 0xc2 && i + 1 < json.size &&
                 (unsigned char)json.data[i + 1] < 0xa0) /* U+0080 to U+009F */
            printf("\\u%04x", (unsigned char)json.data[++i]);
        else
            putchar(c);
    }
    putchar('\n');
}

/* A path has at most 255 bytes, names of settings have fewer than this. */
#define NAME_WIDTH 28

void
plain_json_pair(const char *name, const char *value)
{
    print_pair(NAME_WIDTH, name, value);
}

static void
print_member(const char *path, const char *value, void *user)
{
    (void)user;
    plain_json_pair(path, value);
}

enum exit_code
plain_json_show(struct slice json)
{
    return json_members_read(json, print_member, NULL)
               ? failed(NO_MEMORY) /* it is valid */
               : EXIT_GOOD;
}
