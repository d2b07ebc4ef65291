#include "client/lib/pause.h"

#include <sys/random.h>

unsigned
pause_chance(unsigned below)
{
    unsigned n = 0;

    if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != sizeof(n))
        n = 0;
    return n % below;
}

unsigned
pause_take(unsigned *pause_ms, unsigned most_ms)
{
    unsigned ms = *pause_ms / 2 + pause_chance(*pause_ms);

    *pause_ms = *pause_ms > most_ms / 2 ? most_ms : *pause_ms * 2;
    return ms;
}
