/*
 * line_input.h - lines of a pipe, or of a file that grows and is rotated.
 *
 *     line_input_open --> line_input_fill --> line_input_next ... --+
 *                           ^   |                                   |
 *                           |   +--> LINE_INPUT_WAITS, ..._ENDED    |
 *                           +---------------------------------------+
 *
 * The note of a file says how far its lines were taken, and recognizes it:
 *
 *     DEVICE INODE OFFSET LINE DIGEST      DIGEST: of the 4,096 bytes before
 *                                          OFFSET, or fewer
 *
 * Rotation by renaming: another file gets the name. The input reads the old one
 * to its end once the new one has bytes (then the writer has changed to it),
 * and goes on with the new one. Each file is opened when its name is first
 * seen, so it stays readable if it is renamed or deleted. At the start, the
 * input finds a file that was renamed once by its inode. The input refuses a
 * file that somebody has truncated or changed before OFFSET: nobody knows which
 * lines are lost.
 *
 * A pipe has no note: bytes that were read from it are nowhere else.
 */
#ifndef CLIENT_CLI_LINE_INPUT_H
#define CLIENT_CLI_LINE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Longest line. The memory of an input. */
#define LINE_INPUT_MAX ((size_t)1 << 20)

#define LINE_INPUT_NOTE_SIZE 192

struct line_input;

enum line_input_state {
    LINE_INPUT_FILLED, /* there are more bytes */
    LINE_INPUT_WAITS,  /* nothing is there now */
    LINE_INPUT_ENDED,  /* the pipe has ended */
    LINE_INPUT_FAILED  /* `why` says why */
};

/* Opens the file, FIFO or device `path`; "-" is standard input. `note`: as
 * line_input_note wrote it earlier; "": the file is read from its beginning.
 * STATUS_IO, STATUS_MEMORY. */
MUST_CHECK enum status line_input_open(struct line_input **input,
                                       const char *path, const char *note,
                                       struct problem *why);
void line_input_close(struct line_input *input); /* NULL is allowed */

/* True for a regular file. */
bool line_input_is_file(const struct line_input *input);

/* The descriptor to wait for; -1: a file, look again after a pause. */
int line_input_fd(const struct line_input *input);

/* Looks if the file was rotated; call it also while nothing is read. False:
 * more than 16 times since its lines were taken. */
MUST_CHECK bool line_input_watch(struct line_input *input, struct problem *why);

/* Reads once, without waiting. All lines were taken before. */
MUST_CHECK enum line_input_state line_input_fill(struct line_input *input,
                                                 struct problem *why);

/* Takes the next line, without its end; lent until line_input_fill. `*number`:
 * its number in the file, from 1. False: there is no whole line. */
bool line_input_next(struct line_input *input, struct slice *line,
                     uint64_t *number);

/* Takes back the line that line_input_next returned last. */
void line_input_return(struct line_input *input);

/* Bytes of a line that has no end yet. */
size_t line_input_rest(const struct line_input *input);

/* Writes the note behind the last line that was taken; "" for a pipe. */
void line_input_note(const struct line_input *input,
                     char note[LINE_INPUT_NOTE_SIZE]);

#endif
