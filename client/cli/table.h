/*
 * table.h - rows of text in columns, for people.
 *
 *     SET     POSITION            CHANGED               TITLE
 *     demo    ad13c92cbd5ea809-4  2026-11-20T10:00:00Z  The demo
 *
 * A column is as wide as its widest cell so far. The table prints its rows when
 * it has TABLE_ROWS of them: a list without an end needs no more memory than
 * that. Texts of others cannot control the terminal (print_plain).
 */
#ifndef CLIENT_CLI_TABLE_H
#define CLIENT_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/slice.h"

#define TABLE_ROWS        1000
#define TABLE_COLUMNS_MAX 12

struct table {
    const char *const *headings;
    size_t n_columns;
    size_t widths[TABLE_COLUMNS_MAX]; /* in characters */
    char **cells;                     /* those that wait, row by row */
    size_t n_cells;
    size_t n_rows;    /* printed */
    bool has_heading; /* it is printed */
    bool has_failed;  /* no memory */
};

/* `headings`: lent, NULL behind the last. Give the table to table_end. */
void table_begin(struct table *table, const char *const *headings);

/* Adds the next cell of the row; "" is "-". Prints the waiting rows if there
 * are TABLE_ROWS. */
void table_add_text(struct table *table, const char *text);

/* Adds a member of a JSON object: a string decoded, a number as it stands. "-":
 * there is none, or it is neither. */
void table_add_member(struct table *table, struct slice object,
                      const char *name);

/* The same of a time, "2026-11-20T10:00:00.123456Z", without its fraction. */
void table_add_time(struct table *table, struct slice object, const char *name);

/* Prints the waiting rows, and frees the table. False: no memory; it has said
 * so. */
bool table_end(struct table *table);

#endif
