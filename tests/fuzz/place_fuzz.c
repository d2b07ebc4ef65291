#include "client/source/source_position.h"
#include "tests/fuzz/fuzz.h"

/* A position from a file or a caller is refused, or is written as a position
 * that reads back equal. */
FUZZ_TARGET(place, text)
{
    struct source_position place, again;
    char written[TD_POSITION_SIZE], rewritten[TD_POSITION_SIZE];

    if (source_position_read(text, &place))
        return;
    source_position_write(written, &place);
    FUZZ_ASSERT(strlen(written) < sizeof(written));
    FUZZ_ASSERT(!source_position_read(slice_of(written), &again));
    FUZZ_ASSERT(again.is_time == place.is_time);
    FUZZ_ASSERT(again.time_us == place.time_us);
    FUZZ_ASSERT(again.n_at == place.n_at && again.mark == place.mark);
    FUZZ_ASSERT(again.at.seq == place.at.seq);
    FUZZ_ASSERT(!strcmp(again.at.epoch, place.at.epoch));
    source_position_write(rewritten, &again);
    FUZZ_ASSERT(!strcmp(written, rewritten));
}
