/*
 * shelf_inside.h - what shelf.c and shelf_read.c share.
 */
#ifndef CLIENT_MIRROR_SHELF_INSIDE_H
#define CLIENT_MIRROR_SHELF_INSIDE_H

#include "client/mirror/shelf.h"

struct shelf {
    char *state;
    int dir_fd;
    int state_fd;
    int lock_fd;
    int incoming_fd;
    int found_fd;     /* -1: not used yet */
    unsigned n_found; /* the last number tried there */
};

/* Opens the directory `name` of a directory, but no link; -1: errno. */
int shelf_open_in(int dir_fd, const char *name);

#endif
