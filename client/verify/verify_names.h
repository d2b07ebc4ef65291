/*
 * verify_names.h - the lists that an archive or index names, in order.
 */
#ifndef CLIENT_VERIFY_VERIFY_NAMES_H
#define CLIENT_VERIFY_VERIFY_NAMES_H

#include "client/verify/verify_head.h"

/* A list that an archive or index names. */
struct named {
    char *loc;
    bool has_digest;
    struct digest digest;
    bool is_read;
};

struct names {
    struct named *each;
    size_t n;
    size_t capacity;
    size_t next; /* where a search begins */
};

void names_fini(struct names *names);

MUST_CHECK enum status names_add(struct names *names,
                                 const struct verify_entry *entry);

/* Forgets all but the first `n`. */
void names_cut(struct names *names, size_t n);

/* Finds the list of that URL. NULL: no document has named it. Lent until
 * names_add. */
struct named *names_find(struct names *names, struct slice loc);

#endif
