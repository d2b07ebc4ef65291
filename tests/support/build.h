/*
 * build.h - lists and dumps that are built on demand, for tests that need them
 * built, however long that takes on a busy machine.
 */
#ifndef TESTS_SUPPORT_BUILD_H
#define TESTS_SUPPORT_BUILD_H

#include "tests/support/http.h"

/* Posts to `path`, "/sets/NAME/resourcelist" or "/resourcedump". As long as the
 * answer is that it goes on (202, after ten seconds) asks again, for two
 * minutes. Returns the status; 200: what is there holds all that was committed
 * before. */
long build(struct http *h, const char *path);

#endif
