#include "base/clock.h"

#include <time.h>

static int64_t
read_clock(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now); /* cannot fail for the two ids used here */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t
clock_now_us(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t
clock_steady_us(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t
clock_steady_ms(void)
{
    return clock_steady_us() / 1000;
}

/* Pauses between attempts */

int64_t
backoff_pause(const struct backoff *b, unsigned failures, uint32_t random)
{
    int64_t pause_us = b->first_us < b->max_us ? b->first_us : b->max_us;
    int64_t half_us;

    for (unsigned i = 1; i < failures && pause_us < b->max_us; i++)
        pause_us = pause_us > b->max_us / 2 ? b->max_us : 2 * pause_us;
    half_us = pause_us / 2;
    return pause_us - (int64_t)((double)half_us * random / UINT32_MAX);
}

int64_t
backoff_next(int64_t now_us, int64_t pause_us, int64_t retry_after_us,
             int64_t end_us)
{
    int64_t wait_us = retry_after_us > pause_us ? retry_after_us : pause_us;

    if (end_us <= now_us)
        return now_us;
    return wait_us < end_us - now_us ? now_us + wait_us : end_us;
}
