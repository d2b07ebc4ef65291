/*
 * watched_files.h - files that settings name, read again when they change.
 *
 * Files that only make sense together, such as a certificate and its key, are a
 * group, and are read together:
 *
 *     calm --change--> changed --0.1 s without a change--> read
 *                                  good: calm
 *                                  bad:  read again after the next change,
 *                                        reported after 2 s
 *
 * So nobody notices that one of two files was replaced before the other.
 * While changes never pause, the files are read once a second.
 *
 * inotify watches the folders of the files, and each folder with a symbolic
 * link on the way there. So it reports when a program
 *   - writes a file in place,
 *   - renames another file over it, or
 *   - redirects a link (as Kubernetes does with "..data").
 * It reports no change by another machine in a network file system, and no new
 * name of a folder further up: the operator sends SIGHUP then. A file counts as
 * changed if its inode, size or one of its times differs.
 *
 * Only the thread that made it may call it.
 */
#pragma once

#include "proto/problem.h"

/* The most files of a group. */
#define WATCHED_FILES_MAX 2

struct watched_group {
    /* Lent, and read at each look, since settings may name other files. An
     * empty name: no file. */
    const char *paths[WATCHED_FILES_MAX];
};

struct watched_calls {
    /* Reads the files of that group and uses them. A failure changes
     * nothing. */
    enum status (*read)(void *user, size_t group, struct problem *why);

    /* The files could not be read for a while; called once until they can. */
    void (*report)(void *user, const struct problem *why);
};

struct watched_files;

/* `groups` is copied; `calls` and `user` are lent. Looks at no file yet. */
struct watched_files *watched_files_new(const struct watched_group *groups,
                                        size_t n,
                                        const struct watched_calls *calls,
                                        void *user);
void watched_files_free(struct watched_files *w); /* NULL is allowed */

/* Looks which files have changed since the last look. Call it before the owner
 * reads all groups itself, and when settings name other files. If inotify fails
 * it logs that, once, and goes on. */
void watched_files_look(struct watched_files *w);

/* The owner has read all groups since the last look, and uses them: changes
 * that the look found are done. */
void watched_files_settle(struct watched_files *w);

/* Readable after a change; -1: nothing is watched. It may become another one
 * with each call of a function here. */
int watched_files_fd(const struct watched_files *w);

/* Milliseconds until watched_files_turn has something to do; -1: a change comes
 * first. */
int watched_files_wait_ms(const struct watched_files *w);

/* Takes the changes that inotify reports, and reads groups that are due. */
void watched_files_turn(struct watched_files *w);
