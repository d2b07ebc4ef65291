/*
 * set_description.h - the description of a set as JSON: GET /sets/{set} and GET
 * /sets.
 *
 * It comes from memory; making it reads and counts nothing.
 */
#ifndef BROKER_HTTP_SET_DESCRIPTION_H
#define BROKER_HTTP_SET_DESCRIPTION_H

#include "broker/sets/registry.h"
#include "proto/buf.h"

/* Appends the object that describes a set, and a newline. */
void set_description_set(struct buf *to, const struct set *set,
                         const struct head *head);

/* Appends the short object that stands for a set among others. */
void set_description_entry(struct buf *to, const struct set *set,
                           const struct head *head);

#endif
