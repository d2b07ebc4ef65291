#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice document = {(const char *)data, size};

    fuzz_reading("application/x-ndjson", READER_POST, document);
    fuzz_taking_message("application/x-ndjson", document);
    return 0;
}
