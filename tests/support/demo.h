/*
 * demo.h - what tests do with the set "demo" and ask of it again and again.
 *
 * Fails the test at what it does not expect.
 */
#ifndef TESTS_SUPPORT_DEMO_H
#define TESTS_SUPPORT_DEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"

#define DEMO_CHANGES "/sets/demo/changes"

void demo_remove(struct http *h);

/* Makes it, or gives it these settings, JSON. */
void demo_put(struct http *h, const char *settings);

/* The position of its head. */
void demo_position(struct http *h, char to[64]);

/* How many closed lists it has; and: waits until it has so many. */
uint64_t demo_closed(struct http *h);
void demo_await_closed(struct http *h, uint64_t n);

/* Waits until it has no folder on the disk; has closed list `list` its file
 * there? */
void demo_await_no_folder(const struct broker *b);
bool demo_has_list(const struct broker *b, unsigned list);

#endif
