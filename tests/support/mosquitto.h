/*
 * mosquitto.h - the distribution's MQTT broker, Mosquitto 2.0, for a test: on a
 * free port of the loopback address, with a directory of its own.
 *
 *     struct mosquittod m;
 *
 *     mosquittod_open(&m, NULL);
 *     ... "--mqtt", m.url ...
 *     mosquittod_kill9(&m);
 *     mosquittod_restart(&m);    same directory, same port
 *     mosquittod_close(&m);
 *
 * Its queues have no limit. A file keeps its log, printed like our broker's
 * (process.h); it dies with the test, too. The thread that starts or restarts
 * it must live as long as it.
 *
 * The names are not libmosquitto's: that has mosquitto_... and struct
 * mosquitto.
 */
#ifndef TESTS_SUPPORT_MOSQUITTO_H
#define TESTS_SUPPORT_MOSQUITTO_H

#include <stdbool.h>
#include <sys/types.h>

#include "tests/support/certificate.h"
#include "tests/support/tempdir.h"

/* All text is lent until mosquittod_open returns. */
struct mosquittod_wish {
    const char *user, *password; /* the only user; NULL: anybody */
    const char *acl;             /* text of its acl_file; NULL: none */
    bool is_tls;                 /* its certificate and CA: m.certificate */
    const char
        *tls_names; /* of the certificate; NULL: those of certificate.h */
    bool asks_certificate; /* with is_tls: of clients, signed by the same CA */
    const char *more; /* lines of its configuration: "max_packet_size 4096\n" */
};

struct mosquittod {
    struct tempdir dir;
    unsigned port;
    char url[64];  /* "mqtt://127.0.0.1:24123", or mqtts: */
    pid_t pid;     /* 0: not running */
    int out;       /* its standard output; end of file when it has ended */
    char log[300]; /* its standard error */
    char config[300];
    bool is_tls;
    struct certificate certificate; /* with is_tls */
    const char *arguments[4];
};

/* Starts one. `wish` may be NULL. Fails the test if nobody can connect to it in
 * time. */
void mosquittod_open(struct mosquittod *m, const struct mosquittod_wish *wish);

/* Ends it if it still runs, and removes its directory. All zero is fine. */
void mosquittod_close(struct mosquittod *m);

/* SIGKILL: Mosquitto loses everything that it had not written. */
void mosquittod_kill9(struct mosquittod *m);

/* Starts it again after that. */
void mosquittod_restart(struct mosquittod *m);

/* It does nothing any more, but its connections stand; and goes on. */
void mosquittod_freeze(struct mosquittod *m);
void mosquittod_thaw(struct mosquittod *m);

#endif
