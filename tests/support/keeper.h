/*
 * keeper.h - a follower that keeps what it is told in an SQLite database: what
 * each change does and the position behind it, in one transaction. So every
 * change is applied once, whenever it is killed; and the database can prove it.
 *
 * A keeper is a process of its own: the test program itself, begun again.
 *
 *     TEST_PROGRAM(KEEPER, keeper_main);      (tests/test.h)
 *
 *     keeper_start(&k, url, "/tmp/x/state.db", 1000000, TD_WEBSOCKET);
 *     keeper_kill9(&k);
 *     keeper_start(&k, ...);     goes on where it was
 *     keeper_end(&k);            it has got to the last, and ended with 0
 *
 * Changes are of http://example.com/r/ID, ID a number; the length is what there
 * is to know of a resource.
 */
#ifndef TESTS_SUPPORT_KEEPER_H
#define TESTS_SUPPORT_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER "--keeper"

struct keeper {
    pid_t pid; /* 0: it does not run */
    int out;
    char log[300];
};

int keeper_main(char **argv);

/* Follows the set from the position in the database, else from its beginning,
 * and ends when `last` is applied. `transports` as in td_follow_options. */
void keeper_start(struct keeper *k, const char *url, const char *database,
                  uint64_t last, unsigned transports);
void keeper_kill9(struct keeper *k);

/* Waits for its end, which has to be a good one. `rss_kib`: of that moment, all
 * applied; and the most it ever had. */
void keeper_end(struct keeper *k, uint64_t *rss_kib, uint64_t *peak_kib);

uint64_t keeper_rss_kib(const struct keeper *k);

/* How far the database is: the seq of the position in it; 0: none. May be asked
 * while a keeper is at work. */
uint64_t keeper_seq(const char *database);

/* What it knows of a resource: how many changes were applied, and the length
 * after the last of them; 0: deleted, or never there. */
struct kept {
    uint32_t n;
    uint64_t length;
};

/* Of the resources 0 to n - 1; the caller's, to be freed. Fails the test if
 * there are others. */
struct kept *keeper_all(const char *database, uint32_t n);

#endif
