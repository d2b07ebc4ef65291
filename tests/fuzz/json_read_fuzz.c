#include "tests/fuzz/fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice document = {(const char *)data, size};

    fuzz_reading("application/json", READER_POST, document);
    fuzz_reading("application/json", READER_MESSAGE, document);
    fuzz_taking_message("application/json", document);
    return 0;
}
