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
