/*
 * site_inside.h - what the two halves of a site share: its books (site.c) and
 * its thread (site_wire.c).
 */
#ifndef TESTS_SUPPORT_SITE_INSIDE_H
#define TESTS_SUPPORT_SITE_INSIDE_H

#include <pthread.h>
#include <stdint.h>

#include "proto/buf.h"
#include "tests/support/site.h"

struct site_page;

struct site_request {
    struct site_request *next; /* of the site, in order */
    struct site_page *page;
    char *head; /* with its empty line */
    char *body;
    size_t body_size;
    unsigned status; /* 0: not answered yet */
    bool is_over;    /* answered, or its connection is closed */
};

struct site_manners {
    unsigned status, status_times; /* status 0: as it is; times 0: always */
    char *status_lines;
    bool cuts;
    size_t cut_at;
    unsigned cut_times; /* 0: always */
    bool holds;
    bool gzips, has_no_ranges, is_chunked;
};

struct site_page {
    struct site_page *next;
    char *path;
    bool is_put, is_deleted;
    char *type, *lines; /* NULL: none */
    char *body;
    size_t size;
    struct site_manners manners;
};

struct site_folder {
    struct site_folder *next;
    char *prefix, *dir;
};

struct site_text {
    struct site_text *next;
    char text[];
};

struct site_line; /* a connection; the thread's own */

struct site {
    int listener, wake;
    unsigned port;
    char url[100];
    pthread_t thread;
    struct site_line *lines;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool is_ending;
    struct site_page *pages;
    struct site_page all; /* its manners are of all pages */
    struct site_folder *folders;
    struct site_request *first, **last;
    struct site_text *texts;
    unsigned n_parallel, max_parallel, n_connections;
};

void site_must(bool is_so, const char *what);

/* The mutex is held. The page is made where there is none. */
struct site_page *site_page_of(struct site *s, struct slice path);

/* The page that a target of a request line means. */
struct site_page *site_page_asked(struct site *s, struct slice target);

/* The value of a header of a head; false: it has none. */
bool site_value(const char *head, const char *name, struct slice *value);

/* site_answer.c: appends the answer to `r`, and sets its status. Bytes after
 * `*cut` of `to` must not be sent; SIZE_MAX: all are. The caller holds the
 * mutex. */
void site_answer(struct site *s, struct site_request *r, struct buf *to,
                 size_t *cut);

/* site_wire.c */
void site_wire_open(struct site *s);
void site_wire_wake(struct site *s);
void site_wire_close(struct site *s);

#endif
