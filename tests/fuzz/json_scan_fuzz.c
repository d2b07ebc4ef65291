#include "tests/fuzz/scanned.h"

static void
check(const struct reading_way *way, struct slice document)
{
    size_t step = 1 + document.size % 61;

    said_are_same(said_of(way, document, SIZE_MAX, true),
                  said_of(way, document, SIZE_MAX, false), SAME_REASON);
    if (way->reports_faults) /* which of two faults depends on the pieces */
        return;
    said_are_same(said_of(way, document, step, true),
                  said_of(way, document, SIZE_MAX, false), SAME_OUTCOME);
}

FUZZ_TARGET(json_scan, document)
{
    static const struct reading_way ways[] = {
        {.type = "application/json"},
        {.type = "application/json", .use = INPUT_MESSAGE},
        {.type = "application/json", .takes_message = true},
        {.type = "application/json", .ignores_unknown = true},
        {.type = "application/json", .reports_faults = true},
        {.type = "application/x-ndjson"},
        {.type = "application/x-ndjson", .use = INPUT_RESOURCES},
        {.type = "application/x-ndjson", .reports_faults = true},
    };

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        check(&ways[i], document);
}
