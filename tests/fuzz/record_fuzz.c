#include "broker/log/record.h"

#include "tests/fuzz/fuzz.h"

/* A record of another broker is refused, or is written again as the same
 * bytes. */
FUZZ_TARGET(record, bytes)
{
    atomic_size_t forms;
    struct record record;
    struct problem why;

    atomic_init(&forms, 0);
    if (!record_read(&record, bytes, &forms, &why)) {
        const struct commit commit = {record.at_us, record.acts, record.n};
        struct buf again;
        size_t n;

        buf_init(&again, SIZE_MAX);
        record_write(&again, &commit, &n);
        FUZZ_ASSERT(n == record.n);
        FUZZ_ASSERT(slice_equal(buf_slice(&again), bytes));
        buf_fini(&again);
    }
    record_fini(&record);
}
