/*
 * mirrored.h - a source with a broker for its changes and a web site for its
 * resources, a mirror of it, and what a test does to them.
 *
 * As a fixture: mirrored_setup, mirrored_teardown. Resources are called by
 * their path on the site, "/a.txt". Everything the source has is remembered:
 * mirrored_assert_same holds the mirror against it.
 */
#ifndef TESTS_SUPPORT_MIRRORED_H
#define TESTS_SUPPORT_MIRRORED_H

#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/http.h"
#include "tests/support/site.h"
#include "tests/support/tempdir.h"

#define MIRRORED_MAX 2000 /* resources */

struct mirrored_resource {
    char path[64];
    char text[64]; /* "": there is none */
};

struct mirrored {
    struct broker broker;
    struct http http;
    struct site *site;
    struct tempdir home;
    char dir[300]; /* the mirror; not there before the first sync */
    char set_url[128];
    struct command command;
    struct mirrored_resource resources[MIRRORED_MAX];
    size_t n_resources;
    struct buf post; /* changes that are not posted yet */
};

int mirrored_setup(void **state);
int mirrored_teardown(void **state);

/* Changes of the source: on the site at once, posted by mirrored_post. `text`
 * NULL: it is deleted. */
void mirrored_change(struct mirrored *m, const char *path, const char *text);

/* Only in the post, as what the site has; or as deleted. */
void mirrored_tell(struct mirrored *m, const char *path, bool is_deleted);

/* Posts to the set "news"; to another one. */
void mirrored_post(struct mirrored *m);
void mirrored_post_to(struct mirrored *m, const char *set);

/* Waits until the log of "news", which retains one list, no longer goes back to
 * its beginning. */
void mirrored_await_cut(struct mirrored *m);

/* Runs `tidings sync SET DIR` with these options, NULL at their end, to its
 * end, and returns the exit status; what it said is in m->command. */
int mirrored_sync(struct mirrored *m, ...) __attribute__((sentinel));

/* The same for `tidings audit ... DIR`: a URL may be given, too. */
int mirrored_audit(struct mirrored *m, ...) __attribute__((sentinel));

/* Begins a sync that goes on; its lines are JSON. */
void mirrored_start(struct mirrored *m);

/* Waits for a line with both of them. */
void mirrored_await(struct mirrored *m, const char *event, const char *part);

/* Where a resource is in the mirror, relative to it and as a path. Lent until
 * the next call. */
const char *mirrored_place(struct mirrored *m, const char *path);
const char *mirrored_file(struct mirrored *m, const char *path);

/* Writes a file of the user into the mirror, directories and all. */
void mirrored_write(struct mirrored *m, const char *place, const char *text);

/* Does the file have that text? NULL: it is not there. `place` is relative to
 * the mirror. */
bool mirrored_has(struct mirrored *m, const char *place, const char *text);

/* Every resource of the source is in the mirror, as it is there, and no other
 * file. */
#define mirrored_assert_same(m) mirrored_assert_same_at((m), __FILE__, __LINE__)
void mirrored_assert_same_at(struct mirrored *m, const char *file, int line);

#endif
