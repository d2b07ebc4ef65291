#include "broker/base/clock.h"

#include <stddef.h>
#include <time.h>

/* NULL: the real clock */
static int64_t (*replaced)(void);
static int64_t (*replaced_steady)(void);

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
    return replaced ? replaced() : read_clock(CLOCK_REALTIME);
}

int64_t
clock_steady_us(void)
{
    return replaced_steady ? replaced_steady() : read_clock(CLOCK_MONOTONIC);
}

void
clock_replace(int64_t (*now)(void))
{
    replaced = now;
}

void
clock_replace_steady(int64_t (*now)(void))
{
    replaced_steady = now;
}
