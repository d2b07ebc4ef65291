/*
 * resource_path.h - the path of a resource in a mirror, made from its URI
 * alone.
 *
 * Pure. The path of a URI depends on no other one, so the order of arrival does
 * not matter. It is made of names that anybody can read:
 *
 *     https://example.com/data/list.csv    example.com/data/list.csv
 *     http://example.com/data/list.csv     example.com:80/data/list.csv
 *     http://127.0.0.1:8080/data/list.csv  127.0.0.1:8080/data/list.csv
 *     https://example.com/data/7           example.com/data/7%
 *     https://example.com/data/            example.com/data/%index
 *     https://example.com/list.csv/7       example.com/list.csv%/7%
 *     https://example.com/find.do?q=a/b    example.com/find.do%3Fq=a%2Fb%
 *
 * Two URIs never share a path, and the file of one is never the directory of
 * another:
 *
 *   - The looks of a name say if it is a file's or a directory's. With an
 *     extension (a dot, then 1 to 8 letters and digits, a letter among them) it
 *     is a file's, and a directory so called gets a "%" at its end; without, it
 *     is a directory's, and a file so called gets the "%". The first name, of
 *     the host, is always a directory's.
 *   - Letters, digits and _ + , = @ : stand for themselves, and so do - . ~
 *     that do not begin a name; all else becomes %XX. An escape of the URI
 *     stays as it is; only where ours would look the same (upper-case, of a
 *     printable character that is no letter or digit) its "%" becomes "%25". So
 *     each "%" before two hexadecimal digits is an escape, and all others are
 *     ours: the one at the end, %empty (nothing between two slashes), %index
 *     (nothing after the last one), %digest.
 *   - Other URIs are at %digest/ab/abcd..., the SHA-256 of the URI: names of
 *     more than 255 bytes, paths of more than RESOURCE_PATH_MAX, bytes that are
 *     not ASCII, white space and control characters. It is inside the host's
 *     directory, or beside the hosts where the host is odd, too (user and
 *     password, a port 08080), or the scheme is not http.
 *
 * No name begins with "." or "-", is empty, or has "/", "\" or a byte outside
 * of printable ASCII. Names may differ in case alone.
 */
#pragma once

#include "proto/slice.h"

/* Bytes of a path, without its NUL; with the mirror's own path before it still
 * well below PATH_MAX. */
#define RESOURCE_PATH_MAX 2000

/* Bytes of a name: NAME_MAX, the limit of all common file systems. */
#define RESOURCE_PATH_NAME_MAX 255

/* Writes the path of the resource `loc` (any bytes), relative and
 * NUL-terminated. */
void resource_path_write(char to[RESOURCE_PATH_MAX + 1], struct slice loc);
