#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(ndjson_read, document)
{
    fuzz_reading("application/x-ndjson", INPUT_POST, document);
    fuzz_taking_message("application/x-ndjson", document);
    fuzz_faults("application/x-ndjson", document);
}
