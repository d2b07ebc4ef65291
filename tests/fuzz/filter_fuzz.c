#include <stdlib.h>

#include "proto/http/accept_header.h"
#include "proto/resourcesync/change_filter.h"
#include "tests/fuzz/fuzz.h"

static void
check_parameter(struct slice query)
{
    struct problem why = {.text = ""};
    struct slice value;
    bool is_there;
    char *room = malloc(query.size);

    FUZZ_ASSERT(room || query.size == 0);
    if (filter_parameter(query, "after", room, &value, &is_there, &why))
        fuzz_check_problem(&why);
    else
        FUZZ_ASSERT(!is_there || value.size <= query.size);
    free(room);
}

/* The filter of a query is refused with a reason, or has one text, which is a
 * query for the same filter. A header Accept has an answer. */
FUZZ_TARGET(filter, text)
{
    static const char *const offers[] = {"application/xml", "application/json"};
    struct problem why = {.text = ""};
    static struct filter filter, again;
    int choice = accept_choose(text, offers, 2);

    FUZZ_ASSERT(choice >= -1 && choice < 2);
    if (accept_names(text, offers[1]))
        FUZZ_ASSERT(choice >= 0);
    check_parameter(text);
    if (filter_read(&filter, text, &why)) {
        fuzz_check_problem(&why);
        return;
    }
    FUZZ_ASSERT(filter_text(&filter).size <= FILTER_TEXT_MAX);
    FUZZ_ASSERT(!filter_read(&again, filter_text(&filter), &why));
    FUZZ_ASSERT(slice_equal(filter_text(&filter), filter_text(&again)));
}
