#include "proto/resourcesync/list_report.h"

#include <inttypes.h>
#include <string.h>

static void
count_one(uint64_t *n, struct list_example *first, struct slice text,
          uint64_t line)
{
    size_t size = text.size < LIST_EXAMPLE_MAX ? text.size : LIST_EXAMPLE_MAX;

    if ((*n)++ > 0)
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
list_report_mended(struct list_report *report, enum list_mended kind,
                   struct slice text, uint64_t line)
{
    count_one(&report->mended[kind], &report->first_mended[kind], text, line);
}

void
list_report_left_out(struct list_report *report, enum list_left_out kind,
                     struct slice text, uint64_t line)
{
    count_one(&report->left_out[kind], &report->first_left_out[kind], text,
              line);
}

static void
add_counts(uint64_t *to, struct list_example *first, const uint64_t *from,
           const struct list_example *its, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (to[i] == 0 && from[i] > 0)
            first[i] = its[i];
        to[i] += from[i];
    }
}

void
list_report_add(struct list_report *to, const struct list_report *from)
{
    add_counts(to->mended, to->first_mended, from->mended, from->first_mended,
               N_LIST_MENDED);
    add_counts(to->left_out, to->first_left_out, from->left_out,
               from->first_left_out, N_LIST_LEFT_OUT);
}

static uint64_t
sum_of(const uint64_t *n, size_t size)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < size; i++)
        sum += n[i];
    return sum;
}

uint64_t
list_report_n_mended(const struct list_report *report)
{
    return sum_of(report->mended, N_LIST_MENDED);
}

uint64_t
list_report_n_left_out(const struct list_report *report)
{
    return sum_of(report->left_out, N_LIST_LEFT_OUT);
}

/* "3 without a host (\"http:///x\", line 5), 1 ..." */
static void
write_counts(struct buf *to, const uint64_t *n,
             const struct list_example *first, const char *const *names,
             size_t size)
{
    const char *between = "";

    for (size_t i = 0; i < size; i++) {
        if (n[i] == 0)
            continue;
        buf_add_format(to, "%s%" PRIu64 " %s", between, n[i], names[i]);
        if (first[i].text[0] && first[i].line)
            buf_add_format(to, " (\"%s\", line %" PRIu64 ")", first[i].text,
                           first[i].line);
        else if (first[i].text[0])
            buf_add_format(to, " (\"%s\")", first[i].text);
        else if (first[i].line)
            buf_add_format(to, " (line %" PRIu64 ")", first[i].line);
        between = ", ";
    }
}

void
list_report_write_mended(struct buf *to, const struct list_report *report)
{
    static const char *const names[N_LIST_MENDED] = {
        [LIST_WHITE_SPACE] = "with white space at the begin",
        [LIST_ENCODING] = "in another encoding",
        [LIST_NAMESPACE] = "with another namespace",
        [LIST_URL] = "URLs",
        [LIST_TIME] = "times",
        [LIST_WORD] = "words",
        [LIST_ATTRIBUTE] = "attributes that do not belong there",
        [LIST_TWICE] = "in two rows",
    };

    write_counts(to, report->mended, report->first_mended, names,
                 N_LIST_MENDED);
}

void
list_report_write_left_out(struct buf *to, const struct list_report *report)
{
    static const char *const names[N_LIST_LEFT_OUT] = {
        [LIST_NO_LOC] = "without a loc",
        [LIST_BAD_LOC] = "with a loc that is no URL of http or https",
        [LIST_STRAY] = "that do not belong into such a document",
        [LIST_BAD_CHANGE] = "with an unknown change",
    };

    write_counts(to, report->left_out, report->first_left_out, names,
                 N_LIST_LEFT_OUT);
}
