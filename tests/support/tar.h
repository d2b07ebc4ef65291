/*
 * tar.h - the files of an archive, such as the inputs of a fuzz target.
 */
#ifndef TESTS_SUPPORT_TAR_H
#define TESTS_SUPPORT_TAR_H

#include "proto/slice.h"

/* `bytes` is lent: a block of exactly its size, so that a sanitizer sees each
 * access behind its end. */
typedef void tar_member_fn(void *user, const char *name, struct slice bytes);

/* Calls `on_member` for each file of the archive, in its order. Ends the
 * program if the archive cannot be read. */
void tar_each(const char *path, tar_member_fn *on_member, void *user);

#endif
