/*
 * follow_options.h - the options of a follower (td_follow_options), checked and
 * copied.
 */
#ifndef CLIENT_FOLLOW_FOLLOW_OPTIONS_H
#define CLIENT_FOLLOW_FOLLOW_OPTIONS_H

#include "client/source/source_position.h"
#include "client/tidings.h"
#include "proto/problem.h"
#include "proto/resourcesync/change_filter.h"
#include "proto/uri.h"

/* "since=" and a datetime; each byte of the latter may be escaped. */
#define SINCE_MAX 128

struct follow_options {
    char url[4 * URI_CHARACTERS_MAX + 1];
    bool has_place;               /* else begins now, or with a baseline */
    struct source_position place; /* of `after`, or the moment after `since` */
    char since[SINCE_MAX];        /* "since=..." as in a query; or "" */
    struct filter filter;         /* of changes */
    struct filter resources;      /* the same without kinds of change */
    char filters[FILTER_TEXT_MAX + 2]; /* "&tag=a", or "" */
    enum td_form form;
    unsigned idle_ms;   /* 0: by the heartbeats */
    unsigned silence_s; /* the same for requests; 0: fetch.h's default */
    unsigned poll_ms;
    unsigned transports; /* of enum td_transport */
    enum td_baseline baseline;
    char *scratch; /* NULL: none */
    char *listing; /* NULL: a temporary one */
    int max_delete_percent;
    uint64_t accept_deletions;
    bool until_caught_up;
    bool as_far_back;
    unsigned compare_ms; /* 0: no comparisons by itself */
    unsigned patience_ms;
    void (*on_trouble)(const char *why, unsigned pause_ms, void *user);
    void (*on_doubt)(const char *why, void *user);
    void (*on_progress)(uint64_t n_resources, void *user);
    void (*on_held)(uint64_t n, uint64_t n_of, void *user);
    void (*on_report)(const struct td_report *report, void *user);
    void (*on_end)(enum td_status rc, const char *why, void *user);
};

/* STATUS_INVALID, STATUS_MEMORY: `why` says more; call follow_options_fini in
 * any case. `options`: NULL: all zero. */
enum status follow_options_read(struct follow_options *parsed, const char *url,
                                const struct td_follow_options *options,
                                struct problem *why);
void follow_options_fini(struct follow_options *parsed);

#endif
