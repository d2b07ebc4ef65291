/*
 * idn.h - names of hosts beyond ASCII, as they are looked up (RFC 3492).
 *
 *     bücher.example, b%C3%BCcher.example --> xn--bcher-kva.example
 *
 * Letters are taken as they are written: sources write names in lower case and
 * composed, as they are registered.
 *
 * Pure, any thread.
 */
#pragma once

#include "proto/buf.h"

/* Appends a name, with its escapes undone. False: it is no UTF-8, it has an
 * escape of an ASCII character, which could change its meaning, or a label of
 * it is too long. */
bool idn_add_ascii(struct buf *to, struct slice name);
