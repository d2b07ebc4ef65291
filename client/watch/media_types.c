/*
 * media_types.c - the media type of a file.
 */
#include "client/watch/media_types.h"

#include <magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"

#define EXTENSION_MAX 32
#define TYPE_MAX      128

struct row {
    char *extension; /* lower case */
    const char *type;
};

struct mediatypes {
    magic_t magic;
    struct row *rows; /* by extension */
    size_t n_rows;
    size_t capacity;
    char *text; /* the table, cut into words */
};

static int
by_extension(const void *a, const void *b)
{
    return strcasecmp(((const struct row *)a)->extension,
                      ((const struct row *)b)->extension);
}

static bool
add_row(struct mediatypes *types, char *extension, const char *type)
{
    if (!ONE_MORE(types->rows, &types->capacity, types->n_rows))
        return false;
    types->rows[types->n_rows++] = (struct row){extension, type};
    return true;
}

/* True if the type needs no escapes in a post: no quote, no backslash, no
 * control character, one "/". */
static bool
is_type(const char *text)
{
    size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789!#$&-^_.+/");
    const char *slash = strchr(text, '/');

    return size == strlen(text) && size <= TYPE_MAX && slash && slash > text &&
           slash[1] && !strchr(slash + 1, '/');
}

/* text/html			html htm shtml */
static bool
read_line(struct mediatypes *types, char *line)
{
    char *rest = NULL;
    char *word = strtok_r(line, " \t\r", &rest);
    const char *type = word;

    if (!type || type[0] == '#' || !is_type(type))
        return true;
    while ((word = strtok_r(NULL, " \t\r", &rest)))
        if (!add_row(types, word, type))
            return false;
    return true;
}

/* Reads the system's own table, which fits in memory. False: no memory. */
static bool
read_table(struct mediatypes *types, const char *path)
{
    FILE *f = fopen(path, "r");
    size_t room = 0;
    char *rest = NULL;
    bool is_good = true;
    ssize_t size;

    if (!f)
        return true;
    size = getdelim(&types->text, &room, '\0', f);
    fclose(f);
    if (size < 0)
        return true;
    for (char *line = strtok_r(types->text, "\n", &rest); line && is_good;
         line = strtok_r(NULL, "\n", &rest))
        is_good = read_line(types, line);
    if (types->n_rows)
        qsort(types->rows, types->n_rows, sizeof(types->rows[0]), by_extension);
    return is_good;
}

struct mediatypes *
mediatypes_open(const char *path)
{
    struct mediatypes *types = calloc(1, sizeof(*types));

    if (!types)
        return NULL;
    types->magic = magic_open(MAGIC_MIME_TYPE);
    if (!types->magic || magic_load(types->magic, NULL) ||
        !read_table(types, path)) {
        mediatypes_close(types);
        return NULL;
    }
    return types;
}

void
mediatypes_close(struct mediatypes *types)
{
    if (!types)
        return;
    if (types->magic)
        magic_close(types->magic);
    free(types->rows);
    free(types->text);
    free(types);
}

static const char *
by_name(const struct mediatypes *types, const char *name)
{
    char extension[EXTENSION_MAX + 1];
    const char *dot = strrchr(name, '.');
    struct row wanted = {extension, NULL};
    const struct row *row;

    if (!dot || dot == name || strlen(dot + 1) > EXTENSION_MAX)
        return NULL;
    strcpy(extension, dot + 1);
    row = types->n_rows ? bsearch(&wanted, types->rows, types->n_rows,
                                  sizeof(types->rows[0]), by_extension)
                        : NULL;
    return row ? row->type : NULL;
}

const char *
mediatypes_of(struct mediatypes *types, const char *name, const void *head,
              size_t size)
{
    const char *type = by_name(types, name);

    if (type || !size)
        return type;
    type = magic_buffer(types->magic, head, size);
    return type && is_type(type) ? type : NULL;
}
