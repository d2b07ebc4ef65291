/*
 * post_search.h - searches the target for a post: for all its entries, one
 * behind the other.
 *
 *     search = post_search_new(post);
 *     for each entry of the target, from the first possible one on
 *         if (post_search_next(search, text, size))
 *             the target has it, and this is its last entry
 *     post_search_free(search);
 */
#ifndef CLIENT_RELAY_POST_SEARCH_H
#define CLIENT_RELAY_POST_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "client/relay/relay_db.h"

struct post_search;

/* The body of `post` is lent until the end. NULL: no memory, or a post without
 * entries. */
struct post_search *post_search_new(const struct relay_post *post);
void post_search_free(struct post_search *search); /* NULL is allowed */

/* Takes the target's next entry; NULL: one without text. True: this one ends
 * the post; call it no more then. */
bool post_search_next(struct post_search *search, const char *text,
                      size_t size);

#endif
