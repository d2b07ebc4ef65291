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

static uint64_t
sum_of(const struct list_report *report, enum list_fault begin,
       enum list_fault end)
{
    uint64_t sum = 0;

    for (size_t i = begin; i < end; i++)
        sum += report->n[i];
    return sum;
}

uint64_t
list_report_n_mended(const struct list_report *report)
{
    return sum_of(report, 0, LIST_NO_LOC);
}

uint64_t
list_report_n_left_out(const struct list_report *report)
{
    return sum_of(report, LIST_NO_LOC, N_LIST_FAULTS);
}

/* "3 without a host (\"http:///x\", line 5), 1 ..." */
static void
write_counts(struct buf *to, const struct list_report *report,
             enum list_fault begin, enum list_fault end)
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
    };
    const char *between = "";

    for (size_t i = begin; i < end; i++) {
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

void
list_report_write_mended(struct buf *to, const struct list_report *report)
{
    write_counts(to, report, 0, LIST_NO_LOC);
}

void
list_report_write_left_out(struct buf *to, const struct list_report *report)
{
    write_counts(to, report, LIST_NO_LOC, N_LIST_FAULTS);
}
