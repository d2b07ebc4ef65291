#include "proto/resourcesync/position.h"

#include <string.h>

#include "proto/number.h"
#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(position, text)
{
    char written[POSITION_MAX], seconds[SECONDS_SIZE_MAX];
    struct position p, again;
    int64_t us = 0, again_us = 0;

    if (!position_read(text, &p)) {
        FUZZ_ASSERT(!p.epoch[0] || epoch_is_valid(slice_of(p.epoch)));
        if (p.epoch[0]) {
            size_t n = position_write(written, p.epoch, p.seq);

            FUZZ_ASSERT(n < POSITION_MAX && written[n] == '\0');
            FUZZ_ASSERT(!position_read((struct slice){written, n}, &again));
            FUZZ_ASSERT(again.seq == p.seq && !strcmp(again.epoch, p.epoch));
        }
    }
    if (seconds_read(text, &us)) {
        size_t n = seconds_write(seconds, us);

        FUZZ_ASSERT(us >= 0 && n <= SECONDS_SIZE_MAX);
        FUZZ_ASSERT(seconds_read((struct slice){seconds, n}, &again_us));
        FUZZ_ASSERT(again_us == us);
    }
}
