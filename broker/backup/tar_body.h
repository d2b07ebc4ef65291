/*
 * tar_body.h - files as the body of an answer: a tar archive (POSIX.1-2001,
 * pax), whose size is known before its first byte.
 *
 *     struct tar_list list;
 *     tar_list_init(&list, "/data/outgoing");
 *     tar_list_add(&list, "manifest", why);
 *     r.body = tar_body_new(&list, on_end, user);
 *
 * The files must stay as they are while the body lives.
 */
#pragma once

#include "broker/net/body.h"

struct tar_file;

struct tar_list {
    const char *dir; /* lent */
    struct tar_file *all;
    size_t n, capacity;
    uint64_t bytes; /* of the archive, its end included */
};

void tar_list_init(struct tar_list *list, const char *dir);
void tar_list_fini(struct tar_list *list);

/* Adds the file `path` of the directory, with its size and time of now. */
MUST_CHECK enum status tar_list_add(struct tar_list *list, const char *path,
                                    struct problem *why);

/* Makes a body of the list, which is lent until on_end(is_whole, user), which
 * the body's end calls, once; `is_whole`: all bytes were handed out. */
typedef void tar_end_fn(bool is_whole, void *user);
struct body *tar_body_new(const struct tar_list *list, tar_end_fn *on_end,
                          void *user);
