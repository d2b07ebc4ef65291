#include "client/lib/pause.h"

#include "base/random.h"

/* Longest that a server may ask us to stay away, in seconds. */
#define ASKED_MOST_S 3600

unsigned
pause_chance(unsigned below)
{
    return random_u32() % below;
}

unsigned
pause_take(unsigned *pause_ms, unsigned most_ms)
{
    unsigned ms = *pause_ms / 2 + pause_chance(*pause_ms);

    *pause_ms = *pause_ms > most_ms / 2 ? most_ms : *pause_ms * 2;
    return ms;
}

bool
pause_within(unsigned patience_ms, int64_t since_ms, unsigned asked_s,
             unsigned *ms)
{
    int64_t left = patience_ms - since_ms;

    if (left <= 0 || (int64_t)asked_s * 1000 > left)
        return false;
    if (*ms > left)
        *ms = (unsigned)left;
    return true;
}

unsigned
pause_asked(unsigned *pause_ms, unsigned most_ms, unsigned asked_s)
{
    unsigned ms = pause_take(pause_ms, most_ms);
    unsigned asked_ms =
        1000 * (asked_s < ASKED_MOST_S ? asked_s : ASKED_MOST_S);

    return ms > asked_ms ? ms : asked_ms;
}
