/*
 * output.h - what commands print on standard output: values, JSON, tables.
 */
#pragma once

#include "base/commands/commands.h"
#include "client/tidings.h"
#include "proto/buf.h"

/* `text` (UTF-8) as a JSON string, quotes included. */
void put_json_string(FILE *to, const char *text);

/* Writes members of a JSON object: `before`, then each with a comma between.
 * `members` names them and their values, which follow, as "loc:t bytes:n":
 *
 *     t  const char *: text, left out if it is NULL
 *     e  the same, and left out if it is empty
 *     a  the same as t: an address, without its secrets (shown_address.h)
 *     n  uint64_t
 *     z  the same, left out if it is 0
 *     b  int: true or false
 */
void put_members(FILE *to, const char *before, const char *members, ...);

/* Prints a line of such values on standard output: as an object, or for people:
 * "first=1 last=3". */
void print_values(bool is_json, const char *members, ...);

/* Prints text of others: nothing that controls the terminal or begins a line.
 * NULL is no text. */
void print_plain(const char *text);

/* The same, with no secret of an address. */
void print_address(const char *text);

/* A copy of an address as people may see it, which the caller frees. Without
 * memory the command ends: nothing may look as if there were no address. */
char *shown_copy(const char *text);

/* Prints a name, and blanks up to column `width`, one at least. */
void print_name(int width, const char *name);

/* Prints a line: such a name and its value. NULL: nothing. */
void print_pair(int width, const char *name, const char *value);

/* "first=1 last=3 position=... datetime=..." on standard output, one line. */
void print_receipt(const struct td_receipt *receipt);

/*
 * JSON of a broker, as text that a terminal can show. All texts are valid JSON
 * (json_parse_text has accepted them). Their strings may be hostile: no control
 * character of them is printed.
 */

/* Reads a member of an object: a string decoded, a number, true or false as it
 * stands. "": there is none, or it is something else. Cuts what is too long. */
void plain_json_text(struct slice object, const char *name, char *to,
                     size_t size);

/* Prints JSON as one line. */
void plain_json_line(struct slice json);

/* Prints a line: NAME VALUE, "lists.open 2"; a td_member_fn. */
void plain_json_pair(const char *name, const char *value, void *user);

/*
 * Rows of text in columns, for people.
 *
 *     SET     POSITION            CHANGED               TITLE
 *     demo    ad13c92cbd5ea809-4  2026-11-20T10:00:00Z  The demo
 *
 * A column is as wide as its widest cell so far. The table prints its rows when
 * it has TABLE_ROWS of them: a list without an end needs no more memory than
 * that. Texts of others cannot control the terminal (print_plain).
 */

#define TABLE_ROWS        1000
#define TABLE_COLUMNS_MAX 12

/* What a column shows of a JSON object. */
struct table_column {
    const char *heading; /* NULL behind the last column */
    const char *member;  /* of the object */

    /* Writes the cell; NULL: plain_json_text. */
    void (*write)(struct slice object, const char *member, char *to,
                  size_t size);
};

struct table {
    const struct table_column *columns;
    size_t n_columns;
    size_t widths[TABLE_COLUMNS_MAX]; /* in characters */
    struct buf cells; /* texts of those that wait, row by row, each with NUL */
    size_t n_cells;
    size_t n_rows;    /* printed */
    bool has_heading; /* it is printed */
};

/* `columns`: lent. Give the table to table_end. */
void table_begin(struct table *table, const struct table_column *columns);

/* Adds the row of a JSON object. "-": it has no such member, or that is no text
 * and no number. */
void table_add(struct table *table, struct slice object);

/* Adds the next cell of the row; "" is "-". Prints the waiting rows if there
 * are TABLE_ROWS. */
void table_add_text(struct table *table, const char *text);

/* The `write` of a time, "2026-11-20T10:00:00.123456Z": without its fraction.
 */
void table_time(struct slice object, const char *member, char *to, size_t size);

/* Prints the waiting rows, and frees the table. False: no memory; it has said
 * so. */
bool table_end(struct table *table);
