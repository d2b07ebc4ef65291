#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_reading("application/x-ndjson", READER_POST,
                 (struct slice){(const char *)data, size});
    return 0;
}
