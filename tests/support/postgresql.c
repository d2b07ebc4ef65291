#include "tests/support/postgresql.h"

#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/journal/pg_cluster.h"
#include "tests/support/process.h"
#include "tests/test.h"

#define PROGRAMS "/usr/lib/postgresql/15/bin/"
#define USER     "postgres"

#define ARGUMENTS_MAX 40

static struct {
    char dir[64];
    char log[256];
    pid_t pid; /* 0: it does not run */
    int out;
    unsigned n_databases; /* that were made */
} server;

/* The words of a command of PostgreSQL, which runs as its own user. */
struct words {
    const char *all[ARGUMENTS_MAX];
    size_t n;
};

static void
add_word(struct words *w, const char *word)
{
    assert_true(w->n + 1 < ARGUMENTS_MAX);
    w->all[w->n++] = word;
    w->all[w->n] = NULL;
}

static void
begin_words(struct words *w)
{
    static const char *const as_user[] = {
        "/usr/bin/setpriv", "--reuid",     USER,   "--regid", USER,
        "--clear-groups",   "--pdeathsig", "KILL", NULL};

    w->n = 0;
    for (size_t i = 0; geteuid() == 0 && as_user[i]; i++)
        add_word(w, as_user[i]);
}

static int
run(const struct words *w, const char *log)
{
    char ignored[256];
    int out;
    pid_t pid = process_start(w->all, log, &out);

    while (process_read(out, ignored, sizeof(ignored), INT64_MAX) > 0)
        ;
    close(out);
    return process_status(pid);
}

static void
make_data(void)
{
    char data[128];
    struct words w;

    snprintf(data, sizeof(data), "%s/data", server.dir);
    begin_words(&w);
    add_word(&w, PROGRAMS "initdb");
    add_word(&w, "-D");
    add_word(&w, data);
    add_word(&w, "-A");
    add_word(&w, "trust");
    add_word(&w, "-U");
    add_word(&w, USER);
    add_word(&w, "-N");
    assert_int_equal(run(&w, server.log), 0);
}

/* Reads what a server says, until it says `line`. */
static void
await_line(int out, const char *line)
{
    char said[8192] = "";
    size_t size = 0;

    while (!strstr(said, line)) {
        ssize_t n =
            process_read(out, said + size, sizeof(said) - 1 - size, INT64_MAX);

        if (n <= 0)
            fail_msg("PostgreSQL ended: %s", said);
        size += (size_t)n;
        said[size] = '\0';
    }
}

void
postgresql_start(void)
{
    char data[128], sockets[128], pid_file[160];
    struct words w;

    snprintf(data, sizeof(data), "%s/data", server.dir);
    snprintf(pid_file, sizeof(pid_file), "%s/postmaster.pid", data);
    snprintf(sockets, sizeof(sockets), "unix_socket_directories=%s",
             server.dir);
    unlink(pid_file); /* of a killed one */
    begin_words(&w);
    add_word(&w, PROGRAMS "postgres");
    add_word(&w, "-D");
    add_word(&w, data);
    add_word(&w, "-c");
    add_word(&w, "listen_addresses=");
    add_word(&w, "-c");
    add_word(&w, sockets);
    add_word(&w, "-c");
    add_word(&w, "fsync=off"); /* no test crashes the machine */
    add_word(&w, "-c");
    add_word(&w, "dynamic_shared_memory_type=mmap"); /* none stays */
    add_word(&w, "-c");
    add_word(&w, "log_min_messages=log"); /* the pipe holds what it says */
    server.pid = process_start(w.all, NULL, &server.out);
    await_line(server.out, "ready to accept connections");
}

int
postgresql_begin(void **state)
{
    struct passwd *user = getpwnam(USER);

    (void)state;
    strcpy(server.dir, "/tmp/tidings-postgresql-XXXXXX");
    assert_non_null(mkdtemp(server.dir));
    if (geteuid() == 0) {
        assert_non_null(user);
        assert_int_equal(chown(server.dir, user->pw_uid, user->pw_gid), 0);
        assert_int_equal(chmod(server.dir, 0755), 0);
    }
    process_log(server.log, sizeof(server.log));
    make_data();
    postgresql_start();
    return 0;
}

static void
find_database(struct postgresql *p)
{
    strcpy(p->host, server.dir);
    snprintf(p->address, sizeof(p->address), "host=%s user=%s dbname=%s",
             p->host, USER, p->name);
}

void
postgresql_open(struct postgresql *p)
{
    struct postgresql first = {.name = "postgres"};
    char sql[64];

    if (!server.pid) /* a test that failed has left it killed */
        postgresql_start();
    find_database(&first);
    snprintf(p->name, sizeof(p->name), "test_%u", ++server.n_databases);
    find_database(p);
    snprintf(sql, sizeof(sql), "CREATE DATABASE %s", p->name);
    (void)postgresql_query(&first, sql);
}

/* Waits until all processes of a server have ended: each has the pipe. Until
 * then they take commits, and no other server starts on their memory. */
static void
await_end(int out)
{
    char said[4096];

    while (process_read(out, said, sizeof(said), INT64_MAX) > 0)
        ;
}

void
postgresql_kill(void)
{
    if (!server.pid)
        return;
    kill(server.pid, SIGKILL);
    (void)process_status(server.pid);
    await_end(server.out);
    close(server.out);
    server.pid = 0;
}

const char *
postgresql_query(const struct postgresql *p, const char *sql)
{
    static char text[256];
    PGconn *c = PQconnectdb(p->address);
    PGresult *result = PQexec(c, sql);

    if (PQresultStatus(result) != PGRES_TUPLES_OK &&
        PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(c));
    snprintf(text, sizeof(text), "%s",
             PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(c);
    return text;
}

void
postgresql_begin_cluster(const struct postgresql *p, const char *public_url)
{
    static const struct journal_place nowhere = {.n = 0};
    const struct pg_options options = {.address = p->address,
                                       .durable_by = DURABLE_UNCHECKED,
                                       .patience_us = 10000000};
    struct problem why;

    if (pg_cluster_begin(&options, public_url, &nowhere, false, &why))
        fail_msg("%s", why.text);
}

int
postgresql_end(void **state)
{
    char command[128];

    (void)state;
    postgresql_kill();
    snprintf(command, sizeof(command), "rm -rf %s", server.dir);
    return system(command);
}
