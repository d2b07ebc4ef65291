#include "proto/input/event_read.h"

#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(event_read, document)
{
    fuzz_reading("application/cloudevents+json", INPUT_POST, document);
    fuzz_taking_message("application/cloudevents+json", document);
    (void)event_read_is_event(document);
}
