/*
 * describe.h - the description of a set as JSON: GET /sets/{set} and GET /sets.
 *
 * It comes from memory; making it reads and counts nothing.
 */
#ifndef BROKER_HTTP_DESCRIBE_H
#define BROKER_HTTP_DESCRIBE_H

#include "broker/sets/registry.h"
#include "proto/buf.h"

/* Appends the object that describes a set, and a newline. */
void describe_set(struct buf *to, const struct set *set,
                  const struct head *head);

/* Appends the short object that stands for a set among others. */
void describe_entry(struct buf *to, const struct set *set,
                    const struct head *head);

#endif
