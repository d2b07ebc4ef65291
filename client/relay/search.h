/*
 * search.h - is a post in the target already? Its entries are looked for among
 * those that the target has: all of them, one behind the other.
 *
 *     search = relay_search_new(post);
 *     for each entry of the target, from where the post could be on
 *         if (relay_search_next(search, text, size))
 *             it is there, and this is its last entry
 *     relay_search_free(search);
 */
#ifndef CLIENT_RELAY_SEARCH_H
#define CLIENT_RELAY_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "client/relay/state.h"

struct relay_search;

/* The body of `post` is lent until the end. NULL: no memory, or a post without
 * entries. */
struct relay_search *relay_search_new(const struct relay_post *post);
void relay_search_free(struct relay_search *search); /* NULL is allowed */

/* The target's next entry; NULL: one that has no text. True: all of the post is
 * there, up to this one; nothing more may be given then. */
bool relay_search_next(struct relay_search *search, const char *text,
                       size_t size);

#endif
