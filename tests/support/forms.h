/*
 * forms.h - bodies of application/x-www-form-urlencoded as they are to stand,
 * for tests.
 */
#ifndef TESTS_SUPPORT_FORMS_H
#define TESTS_SUPPORT_FORMS_H

#include <stddef.h>

#include "tests/support/http.h"

/* Posts the text as a form; the status. */
long forms_post(struct http *h, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes `text` percent-encoded, terminated. Fails the test if there is no room
 * for it. */
void forms_encode(char *to, size_t size, const char *text);

#endif
