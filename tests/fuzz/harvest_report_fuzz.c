#include "broker/sets/harvest.h"
#include "tests/fuzz/fuzz.h"

/* A report is refused with a reason, or is written as JSON that reads back
 * equal, also with a consent. */
FUZZ_TARGET(harvest_report, text)
{
    struct problem why = {""};
    struct harvest *one, *again, *consent;

    if (text.size > HARVEST_BYTES_MAX)
        return;
    if (harvest_read(&one, text, &why)) {
        fuzz_check_problem(&why);
        return;
    }
    FUZZ_ASSERT(fuzz_is_utf8(one->text));
    FUZZ_ASSERT(one->text.size <= HARVEST_TEXT_MAX);
    FUZZ_ASSERT(!harvest_read(&again, one->text, &why));
    FUZZ_ASSERT(slice_equal(one->text, again->text));
    consent = harvest_with_consent(one, 7);
    FUZZ_ASSERT(consent && consent->accept_deletions == 7);
    FUZZ_ASSERT(consent->held_back == one->held_back &&
                consent->left_out == one->left_out);
    harvest_unref(consent);
    harvest_unref(again);
    harvest_unref(one);
}
