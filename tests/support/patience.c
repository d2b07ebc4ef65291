#include "tests/support/patience.h"

#include <time.h>
#include <unistd.h>

#include "tests/test.h"

static int64_t
steady_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void
patience_step(struct patience *p)
{
    int64_t now_us = steady_us();

    if (!p->end_us)
        p->end_us = now_us + PATIENCE_MS * INT64_C(1000);
    else if (now_us > p->end_us)
        fail_msg("waited %d seconds for %s", PATIENCE_MS / 1000, p->with);
    usleep(1000);
}
