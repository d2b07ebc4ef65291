/*
 * list_index.h - the lists that an archive or index names, in order.
 */
#ifndef CLIENT_VERIFY_LIST_INDEX_H
#define CLIENT_VERIFY_LIST_INDEX_H

#include "client/verify/verify_head.h"

/* A list that an archive or index names. */
struct named {
    char *loc;
    bool has_digest;
    struct digest digest;
    bool is_read;
};

struct list_index {
    struct named *each;
    size_t n;
    size_t capacity;
    size_t next; /* where a search begins */
};

void list_index_fini(struct list_index *names);

MUST_CHECK enum status list_index_add(struct list_index *names,
                                      const struct verify_entry *entry);

/* Forgets all but the first `n`. */
void list_index_cut(struct list_index *names, size_t n);

/* Finds the list of that URL. NULL: no document has named it. Lent until
 * list_index_add. */
struct named *list_index_find(struct list_index *names, struct slice loc);

#endif
