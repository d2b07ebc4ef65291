#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice document = {(const char *)data, size};

    fuzz_reading("application/xml", READER_POST, document);
    fuzz_reading("application/xml", READER_MESSAGE, document);
    fuzz_taking_message("application/xml", document);
    return 0;
}
