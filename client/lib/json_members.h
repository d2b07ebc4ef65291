/*
 * json_members.h - all values of a JSON text, each with its path.
 *
 *     {"lists":{"open":2},"links":[{"rel":"self"}]}
 *
 *     lists.open   2
 *     links.0.rel  self
 */
#ifndef CLIENT_LIB_JSON_MEMBERS_H
#define CLIENT_LIB_JSON_MEMBERS_H

#include "client/tidings.h"
#include "proto/problem.h"
#include "proto/slice.h"

/* Calls `on_member` for each string (decoded), number, true, false and null, in
 * order. Cuts paths to 255 bytes. STATUS_MALFORMED: not JSON; some values may
 * have been handed over. STATUS_MEMORY. */
MUST_CHECK enum status json_members_read(struct slice text,
                                         td_member_fn *on_member, void *user,
                                         struct problem *why);

#endif
