#include "broker/config/config_file.h"

#include <ini.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

#define NOT_A_LINE "this is not NAME = VALUE"

struct reading {
    FILE *file;
    const char *path;
    unsigned line; /* the present one, from 1 */
    const struct options *options;
    struct config *config;
    bool is_in_section; /* that of the last bridge */

    /* The line of each key; 0: none yet. Of the broker's options; and of the
     * present section. */
    unsigned line_of[OPTIONS_MAX];
    unsigned section_line_of[OPTIONS_MAX];
    enum status rc;
    struct problem *why;
};

static enum status
at_line(struct reading *r, unsigned line, const char *text)
{
    r->rc = problem(r->why, STATUS_INVALID, "%s:%u: %s", r->path, line, text);
    return r->rc;
}

static struct bridge_config *
bridge_of(const struct reading *r)
{
    return &r->config->bridges[r->config->n_bridges - 1];
}

/* Sections */

/* Ends a section after its last key. */
static void
end_section(struct reading *r)
{
    struct problem inner = {.text = ""};
    char text[sizeof(inner.text) + 64];
    const struct bridge_config *bridge;
    const char *key;
    unsigned line = 0;

    if (r->rc || !r->is_in_section)
        return;
    bridge = bridge_of(r);
    if (!bridge_check(bridge, &key, &inner))
        return;
    if (key)
        line =
            r->section_line_of[options_index(&bridge_options, slice_of(key))];
    snprintf(text, sizeof(text), "%s: %s%s%s", bridge_place(bridge).text,
             key ? key : "", key ? " " : "", inner.text);
    (void)at_line(r, line > 0 ? line : bridge->line, text);
}

/* Begins the section "mqtt NAME". */
static enum status
begin_section(struct reading *r, struct slice title, struct problem *why)
{
    static const char form[] = "a bridge to an MQTT broker is [mqtt NAME]";
    struct config *config = r->config;
    struct problem inner = {.text = ""};
    struct slice rest = title, word = slice_take(&rest, ' ');
    enum status rc;

    while (slice_starts(rest, " "))
        slice_take(&rest, ' ');
    if (!slice_is(word, "mqtt"))
        return problem(why, STATUS_INVALID,
                       "[%s]: there is no such section; %s",
                       problem_quote(title).text, form);
    if (rest.size == 0)
        return problem(why, STATUS_INVALID, "[mqtt]: has no name; %s", form);
    for (size_t i = 0; i < config->n_bridges; i++)
        if (slice_is(rest, config->bridges[i].name))
            return problem(why, STATUS_INVALID,
                           "%s: is there twice, first in line %u",
                           bridge_place(&config->bridges[i]).text,
                           config->bridges[i].line);
    rc = bridging_add(&config->bridges, &config->n_bridges, &inner);
    if (!rc)
        rc = bridge_init(bridge_of(r), rest, r->line, &inner);
    if (rc)
        return problem(why, rc, "[%s]: %s", problem_quote(title).text,
                       inner.text);
    r->is_in_section = true;
    memset(r->section_line_of, 0, sizeof(r->section_line_of));
    return STATUS_OK;
}

/* A line "[mqtt NAME]". */
static void
take_section(struct reading *r, const char *line)
{
    struct problem inner = {.text = ""};
    struct slice title = {line + 1, strcspn(line + 1, "]\r\n")};
    const char *rest = title.data + title.size;
    struct slice quoted = {line, strcspn(line, "\r\n")};

    end_section(r);
    if (r->rc)
        return;
    if (*rest == ']')
        rest += 1 + strspn(rest + 1, " \t\r\n");
    else
        rest = line;
    if (*rest && *rest != ';' && *rest != '#') {
        problem_set(&inner, "%s: a section is [mqtt NAME], nothing behind it",
                    problem_quote(quoted).text);
        (void)at_line(r, r->line, inner.text);
    } else if (begin_section(r, title, &inner)) {
        (void)at_line(r, r->line, inner.text);
    }
}

/* Lines */

/* As fgets, but only whole lines without a NUL; STATUS_INVALID: another line.
 * *length is 0 at the end of the file. */
static enum status
get_line(FILE *file, char *line, size_t size, size_t *length)
{
    int c = 0;

    *length = 0;
    while (c != '\n' && (c = getc(file)) != EOF) {
        if (c == '\0' || *length + 1 == size)
            return STATUS_INVALID;
        line[(*length)++] = (char)c;
    }
    line[*length] = '\0';
    return STATUS_OK;
}

/*
 * Replaces fgets for libinih, which would silently cut a long line or a
 * section's name, and join an indented line to the one before. At a section
 * libinih gets an empty line, because it would report a section only at its
 * first key. Ends the file after the first error.
 */
static char *
next_line(char *line, int size, void *stream)
{
    struct reading *r = stream;
    size_t length, blanks;
    enum status rc;

    if (r->rc)
        return NULL;
    rc = get_line(r->file, line, (size_t)size, &length);
    if (!rc && length == 0)
        return NULL;
    r->line++;
    if (rc) {
        (void)at_line(r, r->line, "this line is too long, or has a NUL");
        return NULL;
    }
    blanks = r->line == 1 && slice_starts(slice_of(line), BYTE_ORDER_MARK)
                 ? strlen(BYTE_ORDER_MARK)
                 : 0;
    blanks += strspn(line + blanks, " \t");
    memmove(line, line + blanks, length - blanks + 1);
    if (line[0] == '[') {
        take_section(r, line);
        memcpy(line, "\n", sizeof("\n"));
    }
    return r->rc ? NULL : line;
}

static bool
is_quoted(const char *value)
{
    size_t size = strlen(value);

    return size > 1 && (*value == '"' || *value == '\'') &&
           value[size - 1] == *value;
}

/* Reports a key that does not exist here; it may exist elsewhere. */
static enum status
unknown_key(const struct reading *r, struct slice key, struct problem *why)
{
    const struct option *o = options_find(r->options, key);

    if (r->is_in_section && o)
        return problem(why, STATUS_INVALID,
                       "%s: is the broker's, not the bridge's: it has to stand "
                       "before the first section",
                       o->name);
    o = options_find(&bridge_options, key);
    if (!r->is_in_section && o)
        return problem(why, STATUS_INVALID,
                       "%s: is a bridge's: it has to stand in a section [mqtt "
                       "NAME]",
                       o->name);
    return options_unknown(r->is_in_section ? &bridge_options : r->options, "",
                           key, "", why);
}

static bool
may_be_repeated(const struct reading *r, const struct option *o)
{
    return r->is_in_section &&
           (!strcmp(o->name, "in") || !strcmp(o->name, "out"));
}

static enum status
take_key(struct reading *r, const char *key, const char *value,
         struct problem *why)
{
    const struct options *options =
        r->is_in_section ? &bridge_options : r->options;
    const struct option *o = options_find(options, slice_of(key));
    unsigned *line;

    if (!*key || strpbrk(key, " \t"))
        return problem(why, STATUS_INVALID, NOT_A_LINE);
    if (!o)
        return unknown_key(r, slice_of(key), why);
    if (o->type <= OPTION_FILE)
        return problem(why, STATUS_INVALID,
                       "%s: stands on the command line only", o->name);
    line = (r->is_in_section ? r->section_line_of : r->line_of) +
           (o - options->rows);
    if (*line && !may_be_repeated(r, o))
        return problem(why, STATUS_INVALID,
                       "%s: is there twice, first in line %u", o->name, *line);
    *line = r->line;
    /* They would become part of the value: of a directory's name, say. */
    if (is_quoted(value))
        return problem(why, STATUS_INVALID,
                       "%s: a value has no quotes around it", o->name);
    if (r->is_in_section)
        return options_read(o, "", value, bridge_of(r), why);
    return options_read(o, "", value, r->config, why);
}

static int
take_line(void *user, const char *section, const char *key, const char *value)
{
    struct reading *r = user;
    struct problem inner = {.text = ""};

    (void)section; /* take_section has seen it */
    if (take_key(r, key, value, &inner))
        (void)at_line(r, r->line, inner.text);
    return !r->rc;
}

enum status
config_file_read(struct config *config, const struct options *options,
                 const char *path, struct problem *why)
{
    struct reading r = {
        .path = path, .options = options, .config = config, .why = why};
    int bad;

    r.file = fopen(path, "re");
    if (!r.file) {
        problem_errno(why, "--config: cannot read", path);
        return STATUS_INVALID;
    }

    bad = ini_parse_stream(next_line, &r, take_line, &r);
    if (ferror(r.file)) {
        problem_errno(why, "--config: cannot read", path);
        r.rc = STATUS_INVALID;
    } else if (bad > 0 && (!r.rc || (unsigned)bad < r.line)) {
        /* libinih found the error itself. */
        r.rc = at_line(&r, (unsigned)bad, NOT_A_LINE);
    } else if (bad < 0) {
        r.rc = problem_memory(why);
    }
    end_section(&r);
    fclose(r.file);
    return r.rc;
}
