#include "tests/support/jsonpath.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

/* The most bytes of an unreadable document that a failure shows. */
#define SHOWN_MAX 300

void
jsonpath_open(struct jsonpath *j, struct slice document)
{
    json_error_t error = {.text = ""};

    j->root = json_loadb(document.data, document.size, JSON_DECODE_ANY, &error);
    if (!j->root)
        fail_msg("not JSON: %s: %.*s", error.text,
                 document.size < SHOWN_MAX ? (int)document.size : SHOWN_MAX,
                 document.data);
}

void
jsonpath_close(struct jsonpath *j)
{
    json_decref(j->root);
}

static json_t *
at(const struct jsonpath *j, const char *path)
{
    json_t *value = j->root;

    while (value && *path) {
        size_t size = strcspn(path, ".");

        value = json_is_array(value)
                    ? json_array_get(value, strtoul(path, NULL, 10))
                    : json_object_getn(value, path, size);
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
    return json_string_value(at(j, path));
}

uint64_t
jsonpath_number(const struct jsonpath *j, const char *path)
{
    json_t *value = at(j, path);

    if (!json_is_integer(value))
        fail_msg("no integer: %s", path);
    return (uint64_t)json_integer_value(value);
}

size_t
jsonpath_count(const struct jsonpath *j, const char *path)
{
    json_t *value = at(j, path);

    return json_is_array(value) ? json_array_size(value)
                                : json_object_size(value);
}
