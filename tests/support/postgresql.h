/*
 * postgresql.h - a PostgreSQL server of a test's own: a directory, a unix
 * socket, no port. It dies with the test.
 *
 * PostgreSQL does not run as root: then it is the user postgres, whom the
 * package creates.
 */
#ifndef TESTS_SUPPORT_POSTGRESQL_H
#define TESTS_SUPPORT_POSTGRESQL_H

#include <sys/types.h>

struct postgresql {
    char dir[64];
    char address[128]; /* for libpq */
    char log[256];
    pid_t pid; /* 0: it does not run */
    int out;
};

/* Makes and starts a server, and waits until it takes connections. */
void postgresql_open(struct postgresql *p);

/* Starts it again after postgresql_kill. */
void postgresql_start(struct postgresql *p);

/* Kills it as a crash does. */
void postgresql_kill(struct postgresql *p);

/* Runs one statement; returns its first column of its first row, "" without
 * one. Lent until the next call. */
const char *postgresql_query(struct postgresql *p, const char *sql);

/* Begins a cluster without sets in its database. */
void postgresql_begin_cluster(struct postgresql *p, const char *public_url);

void postgresql_close(struct postgresql *p);

#endif
