#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(urlset_read, document)
{
    fuzz_reading("application/xml", INPUT_POST, document);
    fuzz_reading("application/xml", INPUT_MESSAGE, document);
    fuzz_taking_message("application/xml", document);
    fuzz_faults("application/xml", document);
}
