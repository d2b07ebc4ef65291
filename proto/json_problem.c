#include "proto/json_problem.h"

#include "proto/json.h"

void
json_problem_begin(struct buf *to, unsigned status, const char *title,
                   const struct problem *why)
{
    BUF_ADD(to, JSON_PROBLEM_START ",\"title\":");
    json_string(to, slice_of(title));
    BUF_ADD(to, ",\"status\":");
    buf_add_number(to, status);
    if (why && why->text[0]) {
        BUF_ADD(to, ",\"detail\":");
        json_string(to, slice_of(why->text));
    }
    if (why && why->entry) {
        BUF_ADD(to, ",\"entry\":");
        buf_add_number(to, why->entry);
    }
    if (why && why->line) {
        BUF_ADD(to, ",\"line\":");
        buf_add_number(to, why->line);
    }
}
