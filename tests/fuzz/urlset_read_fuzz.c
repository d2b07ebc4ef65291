#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(urlset_read, document)
{
    fuzz_reading("application/xml", READER_POST, document);
    fuzz_reading("application/xml", READER_MESSAGE, document);
    fuzz_taking_message("application/xml", document);
}
