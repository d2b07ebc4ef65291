#include "tests/support/tls_stage.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/test.h"

struct tls_stage *
tls_stage_new(void **state)
{
    struct tls_stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    tempdir_open(&s->dir);
    certificate_make(&s->certificate, s->dir.path, NULL);
    setenv("CURL_CA_BUNDLE", s->certificate.ca, 1);
    return s;
}

void
tls_stage_begin(struct tls_stage *s)
{
    http_open(&s->http, s->broker.url);
    snprintf(s->set_url, sizeof(s->set_url), "%s/sets/" TLS_SET, s->broker.url);
}

int
tls_stage_teardown(void **state)
{
    struct tls_stage *s = *state;

    http_close(&s->http);
    if (s->broker.pid)
        broker_stop(&s->broker);
    broker_close(&s->broker);
    unsetenv("CURL_CA_BUNDLE");
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

int
tls_stage_run(struct tls_stage *s, const char *const *argv)
{
    command_start(&s->command, argv);
    return command_end(&s->command);
}
