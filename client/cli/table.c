/*
 * table.c - rows of text in columns.
 */
#include "client/cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/plain_json.h"

/* Blanks between two columns. */
#define GAP 2

/* Longest kept text of a cell, in bytes; more than any text of a broker. */
#define CELL_MAX 8192

void
table_begin(struct table *table, const char *const *headings)
{
    *table = (struct table){.headings = headings};
    for (; headings[table->n_columns]; table->n_columns++)
        table->widths[table->n_columns] = strlen(headings[table->n_columns]);
    table->cells =
        calloc(TABLE_ROWS * table->n_columns, sizeof(table->cells[0]));
    table->has_failed = !table->cells;
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

    for (size_t i = 0; !table->has_heading && i < n; i++)
        print_cell(table, i, table->headings[i]);
    table->has_heading = true;
    for (size_t i = 0; i < table->n_cells; i++) {
        print_cell(table, i % n, table->cells[i]);
        free(table->cells[i]);
    }
    table->n_rows += table->n_cells / n;
    table->n_cells = 0;
}

void
table_add_text(struct table *table, const char *text)
{
    size_t column = table->n_cells % table->n_columns;
    char *cell;

    if (table->has_failed)
        return;
    cell = strndup(text[0] ? text : "-", CELL_MAX);
    if (!cell) {
        table->has_failed = true;
        return;
    }
    if (width_of(cell) > table->widths[column])
        table->widths[column] = width_of(cell);
    table->cells[table->n_cells++] = cell;
    if (table->n_cells == TABLE_ROWS * table->n_columns)
        print_rows(table);
}

void
table_add_member(struct table *table, struct slice object, const char *name)
{
    char text[CELL_MAX];

    plain_json_text(object, name, text, sizeof(text));
    table_add_text(table, text);
}

void
table_add_time(struct table *table, struct slice object, const char *name)
{
    char text[64];
    char *fraction;

    plain_json_text(object, name, text, sizeof(text));
    fraction = strchr(text, '.');
    if (fraction)
        snprintf(fraction, 2, "Z");
    table_add_text(table, text);
}

bool
table_end(struct table *table)
{
    if (table->n_cells)
        print_rows(table);
    free(table->cells);
    if (table->has_failed)
        say(NO_MEMORY);
    return !table->has_failed;
}
