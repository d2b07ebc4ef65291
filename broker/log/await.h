/*
 * await.h - submits a post and waits for its outcome.
 *
 * Not from a service thread, nor from the log thread.
 */
#ifndef BROKER_LOG_AWAIT_H
#define BROKER_LOG_AWAIT_H

#include "broker/log/log.h"

/* Submits a copy of `post`, whose `done` is ours, and returns its outcome,
 * which is then in `post` as well. STATUS_STOPPED: the log is ending. */
MUST_CHECK enum status await_post(struct log *log, struct post *post,
                                  struct problem *why);

#endif
