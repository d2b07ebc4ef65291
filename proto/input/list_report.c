#include "proto/input/list_report.h"

void
list_report_count(struct list_report *report, enum list_fault fault,
                  struct slice text, uint64_t line)
{
    struct list_example *first = &report->first[fault];
    size_t size = text.size < LIST_EXAMPLE_MAX ? text.size : LIST_EXAMPLE_MAX;

    if (report->n[fault]++ > 0)
        return;
    /* A character that is cut in the middle goes whole. */
    while (size > 0 && size < text.size &&
           ((unsigned char)text.data[size] & 0xC0) == 0x80)
        size--;
    if (size > 0)
        memcpy(first->text, text.data, size);
    first->text[size] = '\0';
    first->line = line;
}

void
list_report_add(struct list_report *to, const struct list_report *from)
{
    for (size_t i = 0; i < N_LIST_FAULTS; i++) {
        if (to->n[i] == 0 && from->n[i] > 0)
            to->first[i] = from->first[i];
        to->n[i] += from->n[i];
    }
}

/* The faults of a part: from one of these up to the next. */
static const enum list_fault bounds[] = {
    [LIST_MENDED] = 0,
    [LIST_LEFT_OUT] = LIST_NO_LOC,
    [LIST_LEFT_OUT + 1] = N_LIST_FAULTS,
};

uint64_t
list_report_n(const struct list_report *report, enum list_part part)
{
    uint64_t sum = 0;

    for (size_t i = bounds[part]; i < bounds[part + 1]; i++)
        sum += report->n[i];
    return sum;
}

/* "3 without a host (\"http:///x\", line 5), 1 ..." */
void
list_report_write(struct buf *to, const struct list_report *report,
                  enum list_part part)
{
    static const char *const names[N_LIST_FAULTS] = {
        [LIST_WHITE_SPACE] = "with white space at the begin",
        [LIST_ENCODING] = "in another encoding",
        [LIST_NAMESPACE] = "with another namespace",
        [LIST_URL] = "URLs",
        [LIST_TIME] = "times",
        [LIST_WORD] = "words",
        [LIST_ATTRIBUTE] = "attributes that do not belong there",
        [LIST_NO_LOC] = "without a loc",
        [LIST_BAD_LOC] = "with a loc that is no URL of http or https",
        [LIST_STRAY] = "that do not belong into such a document",
        [LIST_BAD_CHANGE] = "with an unknown change",
        [LIST_UNKNOWN] = "in unknown elements",
        [LIST_PART_GONE] = "naming a list that is gone",
    };
    const char *between = "";

    for (size_t i = bounds[part]; i < bounds[part + 1]; i++) {
        const struct list_example *first = &report->first[i];

        if (report->n[i] == 0)
            continue;
        buf_add_format(to, "%s%" PRIu64 " %s", between, report->n[i], names[i]);
        if (first->text[0] && first->line)
            buf_add_format(to, " (\"%s\", line %" PRIu64 ")", first->text,
                           first->line);
        else if (first->text[0])
            buf_add_format(to, " (\"%s\")", first->text);
        else if (first->line)
            buf_add_format(to, " (line %" PRIu64 ")", first->line);
        between = ", ";
    }
}
