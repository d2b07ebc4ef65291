/*
 * fake_broker.h - a broker that does as it is told, also what no broker does.
 *
 * One thread plays scenes, one for each connection it accepts, in order:
 *
 *     fake_stream(b);                      the first is a WebSocket:
 *     fake_send(b, history_json(h, 0, 2)); a message,
 *     fake_close(b, 1001, "restart");      a farewell
 *     fake_answer(b, 404, "...", "{}");    the second is plain HTTP
 *     fake_broker_start(b);
 *
 * At the end of a scene the connection is closed, unless fake_hold was its last
 * step. After the last scene nobody is accepted.
 */
#ifndef TESTS_SUPPORT_FAKE_BROKER_H
#define TESTS_SUPPORT_FAKE_BROKER_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/slice.h"

struct fake_broker;

/* It has a port, but does not listen yet. */
struct fake_broker *fake_broker_new(void);

/* Ends the scenes that are left. */
void fake_broker_free(struct fake_broker *b);

void fake_broker_start(struct fake_broker *b);

/* "http://127.0.0.1:PORT/sets/news" */
const char *fake_broker_url(const struct fake_broker *b);

/* Scenes. What is lent must stay until fake_broker_free. */

void fake_answer(struct fake_broker *b, unsigned status, const char *type,
                 const char *body);
void fake_stream(struct fake_broker *b);

/* Accepts and closes, without a word. */
void fake_nothing(struct fake_broker *b);

/* Reads the request, and closes without a word. */
void fake_silence(struct fake_broker *b);

/* Steps of a stream. */

void fake_send(struct fake_broker *b, struct slice message);
void fake_send_part(struct fake_broker *b, struct slice part, bool is_first,
                    bool is_last);
void fake_send_binary(struct fake_broker *b, struct slice message);
void fake_ping(struct fake_broker *b);
void fake_close(struct fake_broker *b, unsigned code, const char *reason);
void fake_raw(struct fake_broker *b, struct slice bytes);
void fake_wait(struct fake_broker *b); /* until fake_go */
void fake_hold(struct fake_broker *b);

/* Lets one fake_wait go on. */
void fake_go(struct fake_broker *b);

/* What was asked on connection `i`, head and body; "" if there was none. Valid
 * until fake_broker_free. */
const char *fake_request(struct fake_broker *b, size_t i);

#endif
