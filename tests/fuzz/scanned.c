#include "tests/fuzz/scanned.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/resourcesync/xml.h"
#include "tests/support/describe.h"

#define ENTRIES_MAX 50000

static enum status
describe_each(const struct change *change, void *user, struct problem *why)
{
    (void)why;
    describe(user, change);
    return STATUS_OK;
}

static void
add_fault(const struct problem *why, void *user)
{
    buf_add_format(user, "fault %" PRIu64 " in line %" PRIu64 ": %s\n",
                   why->entry, why->line, why->text);
}

struct said
said_of(const struct reading_way *way, struct slice document, size_t step,
        bool is_scanning)
{
    struct said said = {.why = {""}};
    struct input_reader *reader;

    buf_init(&said.text, SIZE_MAX);
    xml_scan_switch(is_scanning);
    reader = input_reader_new(format_of(slice_of(way->type)), way->use,
                              ENTRIES_MAX, describe_each, &said.text);
    FUZZ_ASSERT(reader);
    reader->options = (struct input_options){
        .takes_message = way->takes_message,
        .ignores_unknown = way->ignores_unknown,
        .on_fault = way->reports_faults ? add_fault : NULL,
        .fault_user = &said.text,
    };
    while (!said.rc && document.size > 0)
        said.rc =
            input_reader_feed(reader, fuzz_take(&document, step), &said.why);
    if (!said.rc)
        said.rc = input_reader_end(reader, &said.why);
    said.line = said.why.line;
    if (!said.rc) {
        struct slice id = key_slice(&reader->id);

        buf_add_format(&said.text, "%.*s %s", SLICE_ARG(id),
                       reader->coverage.set);
    }
    input_reader_free(reader);
    xml_scan_switch(true);
    return said;
}

static void
print_said(const char *name, const struct said *said)
{
    fprintf(stderr, "%s: %d in line %d: %s\n%.*s", name, (int)said->rc,
            (int)said->line, said->why.text, SLICE_ARG(buf_slice(&said->text)));
}

/* True if the library said nothing that the scanner did not say. */
static bool
is_beginning(const struct said *plain, const struct said *scanned)
{
    struct slice beginning = buf_slice(&scanned->text);

    if (beginning.size > plain->text.size)
        beginning.size = plain->text.size;
    return slice_equal(beginning, buf_slice(&plain->text));
}

void
said_are_same(struct said scanned, struct said plain, enum sameness sameness)
{
    bool is_same = !scanned.rc == !plain.rc;

    if (!plain.rc || sameness == SAME_TEXT)
        is_same = is_same &&
                  slice_equal(buf_slice(&scanned.text), buf_slice(&plain.text));
    if (sameness >= SAME_REASON)
        is_same = is_same && scanned.rc == plain.rc &&
                  scanned.line == plain.line &&
                  scanned.why.entry == plain.why.entry &&
                  !strcmp(scanned.why.text, plain.why.text) &&
                  is_beginning(&plain, &scanned);
    if (!is_same) {
        print_said("by the scanner", &scanned);
        print_said("by the library alone", &plain);
    }
    FUZZ_ASSERT(is_same);
    buf_fini(&scanned.text);
    buf_fini(&plain.text);
}
