/*
 * describe.h - a change as text, for tests: one line for the change and one for
 * each link, so that a test can compare two changes.
 */
#ifndef TESTS_SUPPORT_DESCRIBE_H
#define TESTS_SUPPORT_DESCRIBE_H

#include "proto/buf.h"
#include "proto/resourcesync/change.h"

/* All but the prefixes, which are only wishes. */
void describe(struct buf *to, const struct change *change);

#endif
