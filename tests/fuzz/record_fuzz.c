#include "broker/log/record.h"

#include "tests/fuzz/fuzz.h"

static void
write_again(struct buf *to, const struct record *record)
{
    const struct commit commit = {record->at_us, record->acts, record->n};
    size_t n;

    buf_init(to, SIZE_MAX);
    record_write(to, &commit, NULL, &n);
    FUZZ_ASSERT(n == record->n);
}

/* A record of another broker is refused, or is written again as the same
 * bytes, unless one of the two is deflated; and what is written can be read. */
FUZZ_TARGET(record, bytes)
{
    atomic_size_t forms;
    struct record record, second;
    struct problem why;

    atomic_init(&forms, 0);
    if (!record_read(&record, bytes, &forms, &why)) {
        struct buf again, third;

        write_again(&again, &record);
        if (bytes.data[0] == 1 && again.data[0] == 1)
            FUZZ_ASSERT(slice_equal(buf_slice(&again), bytes));
        FUZZ_ASSERT(!record_read(&second, buf_slice(&again), &forms, &why));
        write_again(&third, &second);
        FUZZ_ASSERT(slice_equal(buf_slice(&again), buf_slice(&third)));
        record_fini(&second);
        buf_fini(&again);
        buf_fini(&third);
    }
    record_fini(&record);
}
