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

const char *
formats_offered(void)
{
    return "application/xml, application/json, application/x-ndjson, "
           "application/cloudevents+json, application/cloudevents-batch+json";
}

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

bool
format_is_for_resources(const struct format *format)
{
    return format->parser == &urlset_parser || format->is_lines;
}

const char *
formats_offered_for_resources(void)
{
    return "application/xml, application/x-ndjson";
}
