/*
 * output.c - what commands print on standard output: values, JSON, tables.
 */
#include "client/cli/output.h"

#include "client/cli/cli.h"
#include "client/lib/json_fields.h"
#include "client/lib/json_slices.h"
#include "proto/resourcesync/json.h"
#include "proto/shown_address.h"

/* Values */

void
print_plain(const char *text)
{
    for (; text && *text; text++)
        if (*text == '\xc2' && (unsigned char)text[1] >= 0x80 &&
            (unsigned char)text[1] < 0xa0) { /* U+0080 to U+009F */
            putchar('?');
            text++;
        } else {
            putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
        }
}

char *
shown_copy(const char *text)
{
    char *shown = shown_address(strdup(text));

    if (!shown) {
        say(NO_MEMORY);
        exit(1);
    }
    return shown;
}

void
print_address(const char *text)
{
    char *shown = text ? shown_copy(text) : NULL;

    print_plain(shown);
    free(shown);
}

void
put_json_string(FILE *to, const char *text)
{
    char c[JSON_CHAR_MAX];

    fputc('"', to);
    for (; *text; text++)
        fwrite(c, 1, (size_t)(json_put_char(c, *text) - c), to);
    fputc('"', to);
}

void
print_name(int width, const char *name)
{
    int size = (int)strlen(name);

    print_plain(name);
    printf("%*s", size < width ? width - size : 1, "");
}

void
print_pair(int width, const char *name, const char *value)
{
    if (!value)
        return;
    print_name(width, name);
    print_address(value);
    putchar('\n');
}

static void
put_values(FILE *to, bool is_json, const char *before, const char *members,
           va_list values)
{
    struct slice rest = slice_of(members);

    while (rest.size > 0) {
        struct slice name = slice_take(&rest, ':');
        char type = slice_take(&rest, ' ').data[0];
        const char *text = NULL;
        char *shown = NULL;
        uint64_t number = 0;

        if (type == 't' || type == 'e' || type == 'a') {
            text = va_arg(values, const char *);
            if (!text || (type == 'e' && !*text))
                continue;
            if (type == 'a')
                text = shown = shown_copy(text);
        } else {
            number = type == 'b' ? (uint64_t)va_arg(values, int)
                                 : va_arg(values, uint64_t);
            if (type == 'z' && !number)
                continue;
        }
        fprintf(to, is_json ? "%s\"%.*s\":" : "%s%.*s=", before,
                SLICE_ARG(name));
        if (type == 'b')
            fputs(number ? "true" : "false", to);
        else if (!text)
            fprintf(to, "%" PRIu64, number);
        else if (is_json)
            put_json_string(to, text);
        else
            print_plain(text);
        free(shown);
        before = is_json ? "," : " ";
    }
}

void
put_members(FILE *to, const char *before, const char *members, ...)
{
    va_list values;

    va_start(values, members);
    put_values(to, true, before, members, values);
    va_end(values);
}

void
print_values(bool is_json, const char *members, ...)
{
    va_list values;

    va_start(values, members);
    put_values(stdout, is_json, is_json ? "{" : "", members, values);
    va_end(values);
    puts(is_json ? "}" : "");
}

void
print_receipt(const struct td_receipt *receipt)
{
    print_values(false, "first:n last:n position:t datetime:t", receipt->first,
                 receipt->last, receipt->position, receipt->datetime);
}

/* JSON of a broker */

void
plain_json_text(struct slice object, const char *name, char *to, size_t size)
{
    struct slice value;
    struct json_fields_member member = {.name = name, .text = to, .size = size};

    to[0] = '\0';
    if (!json_slices_member(object, name, &value) || !value.size)
        return;
    if (value.data[0] == '"')
        json_fields_read(object, &member, 1, NULL);
    else if (!strchr("{[", value.data[0]) && !slice_is(value, "null"))
        snprintf(to, size, "%.*s", SLICE_ARG(value));
}

void
plain_json_line(struct slice json)
{
    json = slice_without_spaces(json);
    for (size_t i = 0; i < json.size; i++) {
        unsigned char c = (unsigned char)json.data[i];

        if (c == '\n' || c == '\r' || c == '\t') /* never inside strings */
            putchar(' ');
        else if (c == 0x7f)
            fputs("\\u007f", stdout);
        else if (c == 0xc2 && i + 1 < json.size &&
                 (unsigned char)json.data[i + 1] < 0xa0) /* U+0080 to U+009F */
            printf("\\u%04x", (unsigned char)json.data[++i]);
        else
            putchar(c);
    }
    putchar('\n');
}

/* A path has at most 255 bytes, names of settings have fewer than this. */
#define NAME_WIDTH 28

void
plain_json_pair(const char *name, const char *value, void *user)
{
    (void)user;
    print_pair(NAME_WIDTH, name, value);
}

/* Tables */

/* Blanks between two columns. */
#define GAP 2

/* Longest kept text of a cell, in bytes; more than any text of a broker. */
#define CELL_MAX 8192

void
table_begin(struct table *table, const struct table_column *columns)
{
    *table = (struct table){.columns = columns};
    for (; columns[table->n_columns].heading; table->n_columns++)
        table->widths[table->n_columns] =
            strlen(columns[table->n_columns].heading);
    buf_init(&table->cells, SIZE_MAX / 2);
}

/* The characters of `text`, as print_plain prints it. */
static size_t
width_of(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Prints a cell. No blanks are behind the last of a row. */
static void
print_cell(const struct table *table, size_t column, const char *text)
{
    print_plain(text);
    if (column + 1 == table->n_columns)
        putchar('\n');
    else
        printf("%*s", (int)(table->widths[column] - width_of(text) + GAP), "");
}

static void
print_rows(struct table *table)
{
    size_t n = table->n_columns;
    const char *cell = table->cells.data;

    for (size_t i = 0; !table->has_heading && i < n; i++)
        print_cell(table, i, table->columns[i].heading);
    table->has_heading = true;
    for (size_t i = 0; i < table->n_cells; i++, cell += strlen(cell) + 1)
        print_cell(table, i % n, cell);
    table->n_rows += table->n_cells / n;
    table->n_cells = 0;
    buf_clear(&table->cells);
}

void
table_add_text(struct table *table, const char *text)
{
    size_t column = table->n_cells % table->n_columns;
    size_t at = table->cells.size, width;

    buf_add_format(&table->cells, "%.*s", CELL_MAX, text[0] ? text : "-");
    BUF_ADD(&table->cells, "\0");
    if (table->cells.failed)
        return;
    width = width_of(table->cells.data + at);
    if (width > table->widths[column])
        table->widths[column] = width;
    if (++table->n_cells == TABLE_ROWS * table->n_columns)
        print_rows(table);
}

void
table_time(struct slice object, const char *member, char *to, size_t size)
{
    char *fraction;

    plain_json_text(object, member, to, size);
    fraction = strchr(to, '.');
    if (fraction)
        snprintf(fraction, 2, "Z");
}

void
table_add(struct table *table, struct slice object)
{
    char text[CELL_MAX];

    for (size_t i = 0; i < table->n_columns; i++) {
        const struct table_column *column = &table->columns[i];

        (column->write ? column->write : plain_json_text)(
            object, column->member, text, sizeof(text));
        table_add_text(table, text);
    }
}

bool
table_end(struct table *table)
{
    bool has_failed = table->cells.failed;

    if (table->n_cells)
        print_rows(table);
    buf_fini(&table->cells);
    if (has_failed)
        say(NO_MEMORY);
    return !has_failed;
}
