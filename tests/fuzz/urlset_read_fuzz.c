#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice document = {(const char *)data, size};

    fuzz_reading("application/xml", READER_POST, document);
    fuzz_reading("application/xml", READER_MESSAGE, document);
    return 0;
}
