/*
 * tls_stage.h - a broker that speaks TLS, with a certificate of its own that
 * libcurl trusts (CURL_CA_BUNDLE), and programs that are run against it.
 *
 *     static int
 *     set_stage(void **state)
 *     {
 *         TLS_STAGE_OPEN(state, "--heartbeat", "0.5");
 *         return 0;
 *     }
 *
 * As the end of a test: tls_stage_teardown. There is no set yet; set_url is
 * where TLS_SET will be.
 */
#ifndef TESTS_SUPPORT_TLS_STAGE_H
#define TESTS_SUPPORT_TLS_STAGE_H

#include "tests/support/broker.h"
#include "tests/support/certificate.h"
#include "tests/support/command.h"
#include "tests/support/http.h"
#include "tests/support/tempdir.h"

#define TLS_SET "news"

struct tls_stage {
    struct tempdir dir; /* of the certificate */
    struct certificate certificate;
    struct broker broker;
    struct http http;
    struct command command; /* the last that was run */
    char set_url[128];
};

/* Starts it with the options that follow, at least one; *state is the stage's.
 */
#define TLS_STAGE_OPEN(state, ...)                                           \
    do {                                                                     \
        struct tls_stage *stage = tls_stage_new(state);                      \
                                                                             \
        broker_open(&stage->broker, "--tls-cert", stage->certificate.cert,   \
                    "--tls-key", stage->certificate.key, __VA_ARGS__, NULL); \
        tls_stage_begin(stage);                                              \
    } while (0)

struct tls_stage *tls_stage_new(void **state);
void tls_stage_begin(struct tls_stage *s);
int tls_stage_teardown(void **state);

/* Runs a program to its end; returns its exit status, and s->command has what
 * it said. */
int tls_stage_run(struct tls_stage *s, const char *const *argv);

#endif
