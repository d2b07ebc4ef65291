/*
 * base64.h - base64 (RFC 4648 section 4), read strictly.
 */
#pragma once

#include "proto/slice.h"

/* Room for what `text` stands for. */
#define BASE64_ROOM(text) ((text).size / 4 * 3)

/* Decodes `text`, with its padding, into `to`, which has BASE64_ROOM. Returns
 * the size; -1: it is no base64. */
long base64_decode(struct slice text, unsigned char *to);
