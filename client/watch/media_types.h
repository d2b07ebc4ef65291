/*
 * media_types.h - the media type of a file: by its extension, as the system's
 * /etc/mime.types has it (package media-types), else by its first bytes, as
 * libmagic sees them.
 *
 * Why two: libmagic alone calls style sheets, short CSV files and Markdown
 * text/plain, and takes 0.2 to 1.4 ms for a file of text; the table is right
 * about what people name by an extension and takes 0.2 us. The shared MIME
 * database of freedesktop.org knows fewer of the types that data sets have (no
 * N-Triples, N-Quads, Wasm) and calls JavaScript by an obsolete name; a library
 * that reads it is GLib's, 14 packages where these are 4. Loading libmagic's
 * database costs 6 ms and 0.5 MiB.
 */
#ifndef CLIENT_WATCH_MEDIA_TYPES_H
#define CLIENT_WATCH_MEDIA_TYPES_H

#include <stddef.h>

/* How many first bytes of a file libmagic gets. */
#define MEDIATYPES_HEAD 4096

#define MEDIATYPES_TABLE "/etc/mime.types"

struct mediatypes;

/* Reads the table `path`; without it libmagic looks at every file. NULL: no
 * memory, or libmagic has no database. */
struct mediatypes *mediatypes_open(const char *path);
void mediatypes_close(struct mediatypes *types); /* NULL is allowed */

/* The type of the file `name` that begins with the `size` bytes at `head`; lent
 * until the next call. NULL: unknown (an empty file without an extension). */
const char *mediatypes_of(struct mediatypes *types, const char *name,
                          const void *head, size_t size);

#endif
