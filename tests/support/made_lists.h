/*
 * made_lists.h - Change Lists of a made-up history, as a broker writes them.
 */
#ifndef TESTS_SUPPORT_MADE_LISTS_H
#define TESTS_SUPPORT_MADE_LISTS_H

#include "proto/buf.h"
#include "tests/support/history.h"

/* Appends list `number`, with the entries after `after` up to `last`. */
void made_list(struct buf *to, const struct history *h, unsigned number,
               uint64_t after, uint64_t last, bool is_open);

/* Replaces the first `from` in the text by `by`; the test fails where there is
 * none. */
void made_edit(struct buf *text, const char *from, const char *by);

/* Removes the line of entry `seq`; and: repeats it. */
void made_drop(struct buf *text, const struct history *h, uint64_t seq);
void made_double(struct buf *text, const struct history *h, uint64_t seq);

#endif
