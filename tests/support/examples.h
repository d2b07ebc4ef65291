/*
 * examples.h - the documents of tests/spec/examples.
 */
#ifndef TESTS_SUPPORT_EXAMPLES_H
#define TESTS_SUPPORT_EXAMPLES_H

#include "proto/slice.h"

/* Reads a file, "odd/links.xml"; the caller frees its data. */
struct slice examples_load(const char *name);

/* Calls `check` for each XML file of a folder, "odd" or ".", of which there
 * must be some. */
void examples_each(const char *folder,
                   void (*check)(const char *name, struct slice document));

#endif
