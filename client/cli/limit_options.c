#include "client/cli/limit_options.h"

#include <stdlib.h>
#include <string.h>

/* Free bytes to leave on the disk, unless the user gives another number. */
#define MIN_FREE ((uint64_t)1 << 30)

/* "4096", "64K", "50M", "1G", "2T"; "none" is 0. False: none of these. */
static bool
read_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    size_t digits = strspn(text, "0123456789");
    const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;

    *bytes = 0;
    if (!strcmp(text, "none"))
        return true;
    if (digits == 0 || digits > 18 || (text[digits] && !unit) ||
        (unit && text[digits + 1]))
        return false;
    *bytes = strtoull(text, NULL, 10);
    if (*bytes == 0 || *bytes > UINT64_MAX >> shift)
        return false;
    *bytes <<= shift;
    return true;
}

static bool
read_limit(const struct option_row *row, const char *text, uint64_t *limit)
{
    bool is_count = !strcmp(row->argument, "N");

    if (read_bytes(text, limit) && !(is_count && strpbrk(text, "KMGT")))
        return true;
    say(is_count ? "--%s is a number from 1 on, or none"
                 : "--%s is a number of bytes from 1 on, as 500M, or none",
        row->name);
    return false;
}

bool
limits_read(const struct option_row *options, const char *const *given,
            struct td_limits *limits)
{
    const struct {
        const char *name;
        uint64_t *to;
        uint64_t otherwise;
    } rows[] = {
        {"max-file", &limits->max_file_bytes, 0},
        {"max-total", &limits->max_total_bytes, 0},
        {"min-free", &limits->min_free_bytes, MIN_FREE},
        {"max-entries", &limits->max_resources, 0},
    };

    *limits = (struct td_limits){.max_resources = 0};
    for (size_t i = 0; options[i].name; i++)
        for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
            if (strcmp(options[i].name, rows[k].name) != 0)
                continue;
            *rows[k].to = rows[k].otherwise;
            if (given[i] && !read_limit(&options[i], given[i], rows[k].to))
                return false;
        }
    return true;
}
