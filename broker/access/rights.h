/*
 * rights.h - what a principal may do.
 *
 *   publish    post changes, resources and notifications
 *   subscribe  read, stream, pull and subscribe
 *   manage     create, change, rotate and remove sets; their subscriptions
 *   observe    metrics, bridges, relays, subscriptions
 *   admin      everything, tokens too
 *
 * The first three are lists of patterns of names of sets and relays, with
 * blanks between: "news news-* !news-internal". A star stands for any
 * characters. A pattern behind "!" denies, and wins. Names that no pattern
 * matches are not included.
 */
#pragma once

#include "proto/buf.h"
#include "proto/problem.h"

/* Bits, so that a route can accept any of several. */
enum right {
    RIGHT_PUBLISH = 1,
    RIGHT_SUBSCRIBE = 2,
    RIGHT_MANAGE = 4,
    RIGHT_OBSERVE = 8,
    RIGHT_ADMIN = 16
};

#define RIGHTS_OF_SETS (RIGHT_PUBLISH | RIGHT_SUBSCRIBE | RIGHT_MANAGE)
#define RIGHTS_ALL     (RIGHTS_OF_SETS | RIGHT_OBSERVE | RIGHT_ADMIN)

/* Room for the patterns of one right. */
#define PATTERNS_SIZE 1024

struct rights {
    char publish[PATTERNS_SIZE];
    char subscribe[PATTERNS_SIZE];
    char manage[PATTERNS_SIZE];
    bool observe, admin;
};

/* The list of RIGHT_PUBLISH, RIGHT_SUBSCRIBE or RIGHT_MANAGE; NULL: the right
 * has none. */
char *rights_patterns(struct rights *rights, enum right right);

/* "publish" */
const char *rights_word(enum right right);

/* Appends the words of several rights, each with `quote` around it and
 * `between` between: "publish or subscribe". */
void rights_write(struct buf *to, unsigned any_of, const char *quote,
                  const char *between);

/* The right of that word; 0: none. */
enum right rights_named(const char *word);

/* Adds patterns of `text`, with commas or blanks between, to the list of the
 * right. STATUS_INVALID: one has other characters than a name, a star and "!"
 * before it; or the list becomes too long. */
MUST_CHECK enum status rights_add(struct rights *rights, enum right right,
                                  struct slice text, struct problem *why);

/* The longest pattern outside of rights: that of a stream of many sets. */
#define PATTERN_MAX 64

/* True if `text` is a pattern without "!", of at most PATTERN_MAX bytes. */
bool rights_is_pattern(struct slice text);

/* True if the pattern, without "!", matches the name. */
bool rights_match(struct slice pattern, struct slice name);

/* True if one of the rights in `any_of` is held for the set or relay `name`;
 * with an empty name: for any name. An administrator holds all. */
bool rights_include(const struct rights *rights, unsigned any_of,
                    struct slice name);

/* The same without what an administrator holds beside the lists. */
bool rights_name(const struct rights *rights, unsigned any_of,
                 struct slice name);
