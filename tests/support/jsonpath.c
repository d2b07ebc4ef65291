#include "tests/support/jsonpath.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

/* The most bytes of an unreadable document that a failure shows. */
#define SHOWN_MAX 300

void
jsonpath_open(struct jsonpath *j, struct slice document)
{
    char *text = malloc(document.size + 1);
    char error[256] = "";

    assert_non_null(text);
    if (document.size > 0)
        memcpy(text, document.data, document.size);
    text[document.size] = '\0';
    j->root = yajl_tree_parse(text, error, sizeof(error));
    free(text);
    if (!j->root)
        fail_msg("not JSON: %s: %.*s", error,
                 document.size < SHOWN_MAX ? (int)document.size : SHOWN_MAX,
                 document.data);
}

void
jsonpath_close(struct jsonpath *j)
{
    yajl_tree_free(j->root);
}

/* The member or element of `value` that the first `size` bytes name. */
static yajl_val
inside(yajl_val value, const char *name, size_t size)
{
    if (YAJL_IS_ARRAY(value)) {
        size_t i = strtoul(name, NULL, 10);

        return i < value->u.array.len ? value->u.array.values[i] : NULL;
    }
    if (!YAJL_IS_OBJECT(value))
        return NULL;
    for (size_t i = 0; i < value->u.object.len; i++)
        if (strlen(value->u.object.keys[i]) == size &&
            !memcmp(value->u.object.keys[i], name, size))
            return value->u.object.values[i];
    return NULL;
}

static yajl_val
at(const struct jsonpath *j, const char *path)
{
    yajl_val value = j->root;

    while (value && *path) {
        size_t size = strcspn(path, ".");

        value = inside(value, path, size);
        path += size + (path[size] == '.');
    }
    return value;
}

bool
jsonpath_has(const struct jsonpath *j, const char *path)
{
    return at(j, path) != NULL;
}

const char *
jsonpath_text(const struct jsonpath *j, const char *path)
{
    return YAJL_GET_STRING(at(j, path));
}

const char *
jsonpath_digits(const struct jsonpath *j, const char *path)
{
    yajl_val value = at(j, path);

    return YAJL_IS_NUMBER(value) ? YAJL_GET_NUMBER(value) : NULL;
}

uint64_t
jsonpath_number(const struct jsonpath *j, const char *path)
{
    yajl_val value = at(j, path);

    if (!value || !YAJL_IS_INTEGER(value))
        fail_msg("no integer: %s", path);
    return (uint64_t)YAJL_GET_INTEGER(value);
}

size_t
jsonpath_count(const struct jsonpath *j, const char *path)
{
    yajl_val value = at(j, path);

    if (YAJL_IS_ARRAY(value))
        return value->u.array.len;
    return YAJL_IS_OBJECT(value) ? value->u.object.len : 0;
}
