/*
 * schema.h - documents against the schemas in tests/spec/xsd.
 *
 * The schemas allow documents without entries, and know nothing of what the
 * capabilities ask for; tests/spec/xsd/README.md says what they check.
 */
#ifndef TESTS_SUPPORT_SCHEMA_H
#define TESTS_SUPPORT_SCHEMA_H

#include "proto/slice.h"

/* `document` has the root urlset or sitemapindex and is valid. */
#define assert_valid(document) schema_assert_valid(document, __FILE__, __LINE__)

void schema_assert_valid(struct slice document, const char *file, int line);

#endif
