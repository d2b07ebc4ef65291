#include "proto/input/input_formats.h"

#include "proto/input/input_reader.h"

/* To add a format: a file that ends in a struct parser, its name in
 * input_reader.h, and a row here. */
static const struct format formats[] = {
    {"application/xml", &urlset_parser, false},
    {"text/xml", &urlset_parser, false},
    {"application/json", &json_parser, false},
    {"application/x-ndjson", &json_parser, true},
    {"application/ndjson", &json_parser, true},
    {"application/jsonl", &json_parser, true},
    {"application/cloudevents+json", &event_parser, false},
    {"application/cloudevents-batch+json", &event_parser, false},
};

const char formats_offered[] =
    "application/xml, application/json, application/x-ndjson, "
    "application/cloudevents+json, application/cloudevents-batch+json";

const struct format *
format_of(struct slice content_type)
{
    struct slice type = slice_trimmed(slice_take(&content_type, ';'));

    while (content_type.size > 0) {
        struct slice value = slice_take(&content_type, ';');
        struct slice name = slice_trimmed(slice_take(&value, '='));

        value = slice_trimmed(value);
        if (slice_is_word(name, "charset") && !slice_is_word(value, "utf-8") &&
            !slice_is_word(value, "\"utf-8\""))
            return NULL;
    }
    for (size_t i = 0; i < N_ELEMENTS(formats); i++)
        if (slice_is_word(type, formats[i].media_type))
            return &formats[i];
    return NULL;
}

size_t
format_entries_max(const struct format *format)
{
    return format->parser == &urlset_parser ? DOCUMENT_ENTRIES_MAX : SIZE_MAX;
}

enum status
format_refuse(const char *what, struct slice content_type, struct problem *why)
{
    struct slice rest = content_type, type = slice_take(&rest, ';');
    bool is_known = format_of(type) != NULL;

    return problem(
        why, STATUS_UNSUPPORTED,
        "%s are read %s%s in UTF-8, not as \"%s\"; send -H 'Content-Type: %s'",
        what, is_known ? "only" : "as ", is_known ? "" : formats_offered,
        problem_quote(content_type).text,
        is_known ? problem_quote(slice_trimmed(type)).text
                 : "application/json");
}
