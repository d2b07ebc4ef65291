#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(json_read, document)
{
    fuzz_reading("application/json", INPUT_POST, document);
    fuzz_reading("application/json", INPUT_MESSAGE, document);
    fuzz_taking_message("application/json", document);
    fuzz_faults("application/json", document);
}
