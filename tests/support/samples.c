#include "tests/support/samples.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

/* The current family, and all families before it. */
struct family {
    char name[100], type[20];
    bool has_help;
    double last_bucket, last_le; /* of a histogram, from its first bucket to
                                    its count */
    bool has_sum;
};

struct reading {
    struct samples *samples;
    struct family now;
    char before[200][100];
    size_t n_before;
};

static void
end_family(struct reading *r)
{
    const struct family *f = &r->now;

    if (!f->name[0])
        return;
    if (!f->type[0])
        fail_msg("%s has no TYPE", f->name);
    if (f->last_le != 0 || f->has_sum)
        fail_msg("%s lacks a _count", f->name);
}

static void
begin_family(struct reading *r, const char *name)
{
    end_family(r);
    for (size_t i = 0; i < r->n_before; i++)
        if (!strcmp(r->before[i], name))
            fail_msg("%s comes twice", name);
    assert_in_range(r->n_before, 0, 199);
    strcpy(r->before[r->n_before++], name);
    memset(&r->now, 0, sizeof(r->now));
    strcpy(r->now.name, name);
}

/* Copies [a-zA-Z_:][a-zA-Z0-9_:]* off the front. */
static const char *
take_name(const char *line, char to[100])
{
    size_t n = 0;

    while (isalnum((unsigned char)line[n]) || line[n] == '_' || line[n] == ':')
        n++;
    if (n == 0 || n >= 100 || isdigit((unsigned char)line[0]))
        fail_msg("no name: \"%s\"", line);
    snprintf(to, 100, "%.*s", (int)n, line);
    return line + n;
}

static void
read_comment(struct reading *r, const char *line)
{
    bool is_help = !strncmp(line, "# HELP ", 7);
    char name[100];
    const char *rest;

    if (!is_help && strncmp(line, "# TYPE ", 7) != 0)
        fail_msg("neither HELP nor TYPE: \"%s\"", line);
    rest = take_name(line + 7, name);
    if (rest[0] != ' ' || !rest[1])
        fail_msg("nothing behind the name: \"%s\"", line);
    if (is_help) {
        begin_family(r, name);
        r->now.has_help = true;
        return;
    }
    if (strcmp(name, r->now.name) || r->now.type[0])
        fail_msg("TYPE out of place: \"%s\"", line);
    snprintf(r->now.type, sizeof(r->now.type), "%s", rest + 1);
    if (strcmp(r->now.type, "counter") && strcmp(r->now.type, "gauge") &&
        strcmp(r->now.type, "histogram"))
        fail_msg("no such type: \"%s\"", line);
    rest = strlen(name) > 6 ? name + strlen(name) - 6 : "";
    if (!strcmp(r->now.type, "counter") != !strcmp(rest, "_total"))
        fail_msg("%s and only a counter ends in _total", name);
}

/* {NAME="VALUE",...}; *le is set where that is a label. */
static const char *
read_labels(const char *at, const char *line, double *le)
{
    do {
        char name[100];
        const char *value;

        at = take_name(at + 1, name);
        if (strncmp(at, "=\"", 2) != 0)
            fail_msg("no value: \"%s\"", line);
        value = at + 2;
        for (at = value; *at && *at != '"'; at++)
            if (*at == '\\')
                fail_msg("an escape: \"%s\"", line);
        if (*at != '"' || at == value)
            fail_msg("no end of a value: \"%s\"", line);
        at++;
        if (!strcmp(name, "le"))
            *le = strtod(value, NULL); /* "+Inf", too */
    } while (*at == ',');
    if (*at != '}')
        fail_msg("no end of labels: \"%s\"", line);
    return at + 1;
}

/* Of each series the buckets come in order, and each includes the earlier ones;
 * then the sum, and the count. */
static void
read_histogram(struct family *f, const char *suffix, double le, double value)
{
    if (!strcmp(suffix, "_bucket")) {
        bool is_first = f->last_le == 0;

        if (isnan(le) || (!is_first && le <= f->last_le) ||
            value < f->last_bucket)
            fail_msg("%s: buckets do not grow", f->name);
        f->last_le = le;
        f->last_bucket = value;
    } else if (!strcmp(suffix, "_sum")) {
        f->has_sum = true;
    } else if (!strcmp(suffix, "_count")) {
        if (!f->has_sum || !isinf(f->last_le))
            fail_msg("%s lacks _sum or +Inf", f->name);
        if (value != f->last_bucket)
            fail_msg("%s: not as many as in the last bucket", f->name);
        f->last_le = f->last_bucket = 0;
        f->has_sum = false;
    } else {
        fail_msg("%s%s is nothing of a histogram", f->name, suffix);
    }
}

static void
read_sample(struct reading *r, const char *line)
{
    struct samples *s = r->samples;
    struct family *f = &r->now;
    struct sample *sample = &s->all[s->n];
    char name[100];
    double le = NAN;
    const char *at = take_name(line, name);
    size_t size = strlen(f->name);
    char *end;

    if (*at == '{')
        at = read_labels(at, line, &le);
    if (!f->type[0] || !f->has_help || strncmp(name, f->name, size) != 0)
        fail_msg("out of its family: \"%s\"", line);
    snprintf(sample->series, sizeof(sample->series), "%.*s", (int)(at - line),
             line);
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->all[i].series, sample->series))
            fail_msg("comes twice: \"%s\"", line);
    if (*at != ' ' || !isdigit((unsigned char)at[1]))
        fail_msg("no value: \"%s\"", line);
    sample->value = strtod(at + 1, &end);
    if (*end)
        fail_msg("more than a value: \"%s\"", line);
    if (!strcmp(f->type, "histogram"))
        read_histogram(f, name + size, le, sample->value);
    else if (strcmp(name, f->name) != 0)
        fail_msg("out of its family: \"%s\"", line);
    s->n++;
    assert_in_range(s->n, 1, SAMPLES_MAX - 1);
}

void
samples_read(struct samples *s, struct slice text)
{
    struct reading r = {.samples = s};
    char *copy = calloc(1, text.size + 1), *rest = copy;

    assert_non_null(copy);
    memcpy(copy, text.data, text.size);
    assert_int_equal(strlen(copy), text.size);
    assert_true(text.size > 0 && text.data[text.size - 1] == '\n');
    s->n = 0;
    for (char *end; (end = strchr(rest, '\n')); rest = end + 1) {
        *end = '\0';
        if (*rest == '#')
            read_comment(&r, rest);
        else
            read_sample(&r, rest);
    }
    end_family(&r);
    free(copy);
}

double
samples_value(const struct samples *s, const char *series)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->all[i].series, series))
            return s->all[i].value;
    fail_msg("there is no %s", series);
    return 0;
}
