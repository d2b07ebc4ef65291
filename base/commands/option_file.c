#include "base/commands/option_file.h"

#include <ini.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

#define NOT_A_LINE "this is not NAME = VALUE"

static enum status
at_line(struct option_file *file, unsigned line, const char *text)
{
    file->rc =
        problem(file->why, STATUS_INVALID, "%s:%u: %s", file->path, line, text);
    return file->rc;
}

/* Sections */

static void
end_section(struct option_file *file)
{
    struct problem inner = {.text = ""};
    unsigned line = file->line;

    if (!file->rc && file->is_in_section && file->end(file, &line, &inner))
        (void)at_line(file, line, inner.text);
}

/* A line "[TITLE]". */
static void
take_section(struct option_file *file, const char *line)
{
    struct problem inner = {.text = ""};
    struct slice title = {line + 1, strcspn(line + 1, "]\r\n")};
    const char *rest = title.data + title.size;
    struct slice quoted = {line, strcspn(line, "\r\n")};
    enum status rc;

    end_section(file);
    if (file->rc)
        return;
    if (*rest == ']')
        rest += 1 + strspn(rest + 1, " \t\r\n");
    else
        rest = line;
    if (!file->begin)
        rc = problem(&inner, STATUS_INVALID, "[%s]: this file has no sections",
                     problem_quote(title).text);
    else if (*rest && *rest != ';' && *rest != '#')
        rc = problem(&inner, STATUS_INVALID, "%s: %s, nothing behind it",
                     problem_quote(quoted).text, file->section_form);
    else
        rc = file->begin(file, title, &inner);
    if (rc) {
        (void)at_line(file, file->line, inner.text);
        return;
    }
    file->is_in_section = true;
    memset(file->line_of, 0, sizeof(file->line_of));
}

/* Lines */

/*
 * Replaces fgets for libinih, which would silently cut a long line or a
 * section's name, and join an indented line to the one before. At a section
 * libinih gets an empty line, because it would report a section only at its
 * first key. Ends the file after the first error.
 */
static char *
next_line(char *line, int size, void *stream)
{
    struct option_file *file = stream;
    size_t length = 0, blanks;
    int c = 0;

    if (file->rc)
        return NULL;
    /* As fgets, but only whole lines without a NUL. */
    while (c != '\n' && (c = getc(file->stream)) != EOF) {
        if (c == '\0' || length + 1 == (size_t)size) {
            (void)at_line(file, ++file->line,
                          "this line is too long, or has a NUL");
            return NULL;
        }
        line[length++] = (char)c;
    }
    line[length] = '\0';
    if (length == 0)
        return NULL;
    file->line++;
    blanks = file->line == 1 && slice_starts(slice_of(line), BYTE_ORDER_MARK)
                 ? strlen(BYTE_ORDER_MARK)
                 : 0;
    blanks += strspn(line + blanks, " \t");
    memmove(line, line + blanks, length - blanks + 1);
    if (line[0] == '[') {
        take_section(file, line);
        memcpy(line, "\n", sizeof("\n"));
    }
    return file->rc ? NULL : line;
}

static enum status
take_key(struct option_file *file, const char *key, const char *value,
         struct problem *why)
{
    const struct option *o = options_find(file->options, slice_of(key));
    size_t size = strlen(value);
    unsigned *line;

    if (!*key || strpbrk(key, " \t"))
        return problem(why, STATUS_INVALID, NOT_A_LINE);
    if (!o && file->explain)
        return file->explain(file, slice_of(key), why);
    if (!o)
        return options_unknown(file->options, "", slice_of(key), "", why);
    if (o->type <= OPTION_FILE)
        return problem(why, STATUS_INVALID,
                       "%s: stands on the command line only", o->name);
    line = file->line_of + (o - file->options->rows);
    if (*line && !o->may_repeat)
        return problem(why, STATUS_INVALID,
                       "%s: is there twice, first in line %u", o->name, *line);
    *line = file->line;
    /* They would become part of the value: of a directory's name, say. */
    if (size > 1 && (*value == '"' || *value == '\'') &&
        value[size - 1] == *value)
        return problem(why, STATUS_INVALID,
                       "%s: a value has no quotes around it", o->name);
    return options_read(o, "", value, file->values, why);
}

static int
take_line(void *user, const char *section, const char *key, const char *value)
{
    struct option_file *file = user;
    struct problem inner = {.text = ""};

    (void)section; /* take_section has seen it */
    if (take_key(file, key, value, &inner))
        (void)at_line(file, file->line, inner.text);
    return !file->rc;
}

enum status
option_file_read(struct option_file *file, const char *path,
                 struct problem *why)
{
    int bad;

    file->path = path;
    file->why = why;
    file->stream = fopen(path, "re");
    if (!file->stream) {
        enum status rc = errno == ENOENT ? STATUS_NOT_FOUND : STATUS_INVALID;

        problem_errno(why, "--config: cannot read", path);
        return rc;
    }

    bad = ini_parse_stream(next_line, file, take_line, file);
    if (ferror(file->stream)) {
        problem_errno(why, "--config: cannot read", path);
        file->rc = STATUS_INVALID;
    } else if (bad > 0 && (!file->rc || (unsigned)bad < file->line)) {
        /* libinih found the error itself. */
        file->rc = at_line(file, (unsigned)bad, NOT_A_LINE);
    } else if (bad < 0) {
        file->rc = problem_memory(why);
    }
    end_section(file);
    fclose(file->stream);
    return file->rc;
}
