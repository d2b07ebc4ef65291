/*
 * memory.h - change memory: exactly the entries after a position.
 */
#ifndef BROKER_DOCUMENTS_MEMORY_H
#define BROKER_DOCUMENTS_MEMORY_H

#include <stdint.h>

#include "broker/documents/documents.h"

/* A page of change memory, as JSON: the entries after `after`, as many as a
 * message holds, with `next`, which names the last event included; at the head
 * it is empty and its `next` equals its `self`. *last is that event. */
MUST_CHECK enum status memory_open(struct set *set, uint64_t after,
                                   enum log_patience patience,
                                   struct body **body, uint64_t *last,
                                   struct problem *why);

#endif
