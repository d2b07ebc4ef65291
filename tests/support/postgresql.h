/*
 * postgresql.h - a PostgreSQL server of a file of tests, and a database for
 * each test: a server of its own would cost each of them a second.
 *
 *     POSTGRESQL_GROUP;      in the file
 *
 * The server has a directory and a unix socket, and no port. It dies with the
 * tests. PostgreSQL does not run as root: then it is the user postgres, whom
 * the package creates.
 */
#ifndef TESTS_SUPPORT_POSTGRESQL_H
#define TESTS_SUPPORT_POSTGRESQL_H

#define POSTGRESQL_GROUP TEST_GROUP(NULL, postgresql_begin, postgresql_end)

/* A database of the server. */
struct postgresql {
    char host[64];
    char name[32];
    char address[160]; /* for libpq */
};

/* Makes and starts the server. */
int postgresql_begin(void **state);

int postgresql_end(void **state);

/* Makes a database. It goes with the server. */
void postgresql_open(struct postgresql *p);

/* Kills the server as a crash does. */
void postgresql_kill(void);

/* Starts it again, and waits until it takes connections. */
void postgresql_start(void);

/* Runs one statement; returns its first column of its first row, "" without
 * one. Lent until the next call. */
const char *postgresql_query(const struct postgresql *p, const char *sql);

/* Begins a cluster without sets in the database. */
void postgresql_begin_cluster(const struct postgresql *p,
                              const char *public_url);

#endif
