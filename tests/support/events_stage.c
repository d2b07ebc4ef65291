#include "tests/support/events_stage.h"

#include <stdlib.h>

#include "tests/support/source.h"
#include "tests/test.h"

static int
set_up(void **state, const char *heartbeat, const char *rotate,
       const char *message_bytes, const char *threads)
{
    struct events_stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--heartbeat", heartbeat, "--rotate-entries",
                rotate, "--message-bytes", message_bytes, "--threads", threads,
                NULL);
    http_open(&s->http, s->broker.url);
    source_post(&s->http, EVENTS_SET, 1, 3, 0);
    return 0;
}

int
events_stage_quiet(void **state)
{
    return set_up(state, "3600", "50000", "1M", "2");
}

int
events_stage_large(void **state)
{
    return set_up(state, "3600", "50000", "16M", "1");
}

int
events_stage_busy(void **state)
{
    return set_up(state, "0.2", "50000", "1M", "2");
}

int
events_stage_rotating(void **state)
{
    return set_up(state, "3600", "7", "1M", "2");
}

int
events_stage_close(void **state)
{
    struct events_stage *s = *state;

    http_close(&s->http);
    if (s->broker.pid)
        broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}
