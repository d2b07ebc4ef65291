/*
 * jsonpath.h - questions to a JSON document, for tests.
 *
 * A path names members and, by their place, elements:
 *
 *     struct jsonpath j;
 *
 *     jsonpath_open(&j, buf_slice(&h.body));
 *     assert_string_equal(jsonpath_text(&j, "changes.0.loc"), "http://...");
 *     assert_int_equal(jsonpath_number(&j, "last"), 3);
 *     jsonpath_close(&j);
 *
 * It reads with jansson and knows nothing of proto/json.
 */
#ifndef TESTS_SUPPORT_JSONPATH_H
#define TESTS_SUPPORT_JSONPATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"
#include "tests/test.h"

struct jsonpath {
    struct json_t *root; /* of jansson */
};

/* Fails the test, and prints the beginning of `document`, if it is no JSON. */
void jsonpath_open(struct jsonpath *j, struct slice document);
void jsonpath_close(struct jsonpath *j);

bool jsonpath_has(const struct jsonpath *j, const char *path);

/* A string's content; NULL: there is none, or it is something else. Lent until
 * jsonpath_close. */
const char *jsonpath_text(const struct jsonpath *j, const char *path);

/* Fails the test if there is no integer. */
uint64_t jsonpath_number(const struct jsonpath *j, const char *path);

/* How many elements the array has, or members the object; 0: neither. */
size_t jsonpath_count(const struct jsonpath *j, const char *path);

#endif
