#include "proto/datetime.h"

#include "tests/fuzz/fuzz.h"

/* Both ways of writing a date that was read are read as the same moment.
 */
FUZZ_TARGET(datetime, text)
{
    char written[DATETIME_SIZE], shorter[DATETIME_SIZE];
    int64_t us = 0, complete_us = 0, again_us = 0;
    size_t size;

    if (datetime_read_any(text, &us)) {
        FUZZ_ASSERT(datetime_read(text, &complete_us));
        return;
    }
    if (!datetime_read(text, &complete_us))
        FUZZ_ASSERT(complete_us == us);

    datetime_write(written, us);
    FUZZ_ASSERT(
        !datetime_read((struct slice){written, DATETIME_SIZE}, &again_us));
    FUZZ_ASSERT(again_us == us);
    size = datetime_write_short(shorter, us);
    FUZZ_ASSERT(size <= DATETIME_SIZE);
    FUZZ_ASSERT(!datetime_read((struct slice){shorter, size}, &again_us));
    FUZZ_ASSERT(again_us == us);
}
