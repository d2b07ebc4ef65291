/*
 * follow_options.h - the options of a follower: td_follow_options, checked and
 * complete, and what is derived from them.
 */
#pragma once

#include "client/source/source_position.h"
#include "client/tidings.h"
#include "proto/resourcesync/change_filter.h"

/* "since=" and a datetime; each byte of the latter may be escaped. */
#define SINCE_MAX 128

struct follow_options {
    char url[4 * URI_CHARACTERS_MAX + 1];
    bool has_place;               /* else begins now, or with a baseline */
    struct source_position place; /* of `after`, or the moment after `since` */
    const char *digest; /* behind the position in `after`; NULL: none. Valid as
                           long as that is */
    char since[SINCE_MAX];             /* "since=..." as in a query; or "" */
    struct filter filter;              /* of changes */
    struct filter resources;           /* the same without kinds of change */
    char filters[FILTER_TEXT_MAX + 2]; /* "&tag=a", or "" */
    int64_t as_of_us;                  /* of td_follow_options.as_of */
    unsigned silence_s; /* idle_ms for requests; 0: fetch.h's default */
    char *scratch;      /* NULL: none */
    char *listing;      /* NULL: a temporary one */
};

/* Checks where `how` begins, and the filter `part` of resources (NULL: none),
 * for who makes files before it follows. `has_key`: checkpoints are checked.
 * STATUS_INVALID: `why` says more. */
enum status follow_options_check(const struct td_follow_options *how,
                                 bool has_key, const char *part,
                                 struct problem *why);

/* Checks `how`, and sets in it the defaults of what is 0. STATUS_INVALID,
 * STATUS_MEMORY: `why` says more; call follow_options_fini in any case. */
enum status follow_options_read(struct follow_options *parsed, const char *url,
                                struct td_follow_options *how, bool has_key,
                                struct problem *why);
void follow_options_fini(struct follow_options *parsed);
