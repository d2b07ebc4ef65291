/*
 * cut_message.h - a message of any text, for the transports.
 */
#ifndef TESTS_UNIT_PUSH_CUT_MESSAGE_H
#define TESTS_UNIT_PUSH_CUT_MESSAGE_H

#include "broker/readers/message.h"

/* A message of `text`, lent, in slices of `piece` bytes, the last of them
 * empty. It covers entries up to 7. The caller frees its slices. */
struct message cut_message(struct slice text, size_t piece);

#endif
