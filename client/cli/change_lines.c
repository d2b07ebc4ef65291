/*
 * change_lines.c - prints changes as lines.
 */
#include "client/cli/change_lines.h"

#include <string.h>

static const char *
or_none(const char *text)
{
    return text ? text : "-";
}

/* SEQ DATETIME CHANGE LOC */
static void
put_text(FILE *to, const struct td_change *change)
{
    if (change->seq)
        fprintf(to, "%llu ", (unsigned long long)change->seq);
    else
        fputs("- ", to);
    fprintf(to, "%s %s %s",
            or_none(change->change ? change->datetime : change->lastmod),
            change->change ? change->change : "resource", or_none(change->loc));
}

/* Writes the entry as it came, without newlines: JSON has them between tokens
 * alone, never inside strings. */
static void
put_entry(FILE *to, const struct td_change *change)
{
    for (size_t i = 0; i < change->text_size; i++)
        fputc(change->text[i] == '\n' ? ' ' : change->text[i], to);
}

static const struct lines rows[] = {
    {"text", TD_JSON, put_text, "- - baseline-begin -\n",
     "- - baseline-end -\n"},
    {"json", TD_JSON, put_entry, "{\"baseline\":\"begin\"}\n",
     "{\"baseline\":\"end\"}\n"},
    {"xml", TD_XML, put_entry, "<!-- baseline-begin -->\n",
     "<!-- baseline-end -->\n"},
};

const struct lines *
lines_of(const char *name)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}
