/*
 * dump_reader.h - fetches one package of a Resource Dump or a Change Dump, and
 * hands its entries over.
 *
 *     dump_reader_start --> on_head, on_entry ... --> on_end
 *          |                                         nothing after it
 *          +-------> dump_reader_free   at any moment, also from on_entry
 *
 * The package comes into the scratch directory under a name of its own, so that
 * the next process finds it if this one is killed (download.h); the dump
 * removes it at the end. It reads the manifest twice: first to learn what to
 * expect of each member, then to hand over entry by entry, each with its member
 * in a file. An entry whose member is missing, or differs from the manifest,
 * comes without a file.
 */
#pragma once

#include "client/lib/client.h"
#include "client/source/document.h"

struct dump_reader;

/* Static. */
struct dump_reader_calls {
    /* `head`: of the whole manifest. */
    void (*on_head)(const struct document_head *head, void *user);

    /* `file`: its name in the scratch directory, or NULL. The dump removes the
     * file when the function returns, unless it was renamed. */
    void (*on_entry)(const struct document_entry *entry, const char *file,
                     void *user);

    /* STATUS_OK; STATUS_REFUSED, STATUS_GONE, STATUS_UNREACHABLE: the package
     * cannot be had; STATUS_MALFORMED: it is no ZIP package, encrypted, without
     * a manifest ...; STATUS_IO; STATUS_MEMORY. */
    void (*on_end)(const struct problem *why, void *user);
};

/* What it points to must stay until the end. */
struct dump_reader_request {
    const char *url;
    int dir_fd;        /* the scratch directory; must stay open */
    struct slice hash; /* of the package; empty: unknown */
    uint64_t length;   /* or LENGTH_NONE */
    bool has_no_files; /* reads the manifest alone */
};

/* NULL: no memory. It frees itself after on_end. */
struct dump_reader *dump_reader_start(struct td_client *client,
                                      const struct dump_reader_request *request,
                                      const struct dump_reader_calls *calls,
                                      void *user);
void dump_reader_hold(struct dump_reader *dump, bool is_held);
void dump_reader_free(
    struct dump_reader *dump); /* NULL is allowed; not after on_end */
