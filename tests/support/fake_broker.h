/*
 * fake_broker.h - a broker that follows orders, also to do what no broker does.
 *
 * One thread plays scenes, one for each accepted connection, in order:
 *
 *     fake_stream(b);                      the first is a WebSocket:
 *     fake_send(b, history_json(h, 0, 2)); a message,
 *     fake_close(b, 1001, "restart");      a farewell
 *     fake_answer(b, 404, "...", "{}");    the second is plain HTTP
 *     fake_broker_start(b);
 *
 * At the end of a scene the connection is closed, unless fake_hold was its last
 * step. After the last scene it accepts nobody.
 */
#ifndef TESTS_SUPPORT_FAKE_BROKER_H
#define TESTS_SUPPORT_FAKE_BROKER_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/slice.h"

struct fake_broker;

/* It has a port, but does not listen yet. */
struct fake_broker *fake_broker_new(void);

/* The same at [::1]; NULL where that does not exist. */
struct fake_broker *fake_broker_new_ipv6(void);

/* Ends the scenes that are left. */
void fake_broker_free(struct fake_broker *b);

void fake_broker_start(struct fake_broker *b);

/* "http://127.0.0.1:PORT/sets/news" */
const char *fake_broker_url(const struct fake_broker *b);
unsigned fake_broker_port(const struct fake_broker *b);

/* Scenes. It copies the texts that it will send: a test may be over, and its
 * memory gone, while the thread still sends the last of them. */

void fake_answer(struct fake_broker *b, unsigned status, const char *type,
                 const char *body);
void fake_stream(struct fake_broker *b);

/* Describes the set, as a broker does for a GET of its URL: "news", with links
 * to its stream and its change memory, and nothing else. */
void fake_describe(struct fake_broker *b);

/* The same, and its handshake has `frames` in one piece with it. */
void fake_stream_with(struct fake_broker *b, struct slice frames);

/* A stream whose handshake has that Sec-WebSocket-Extensions. */
void fake_stream_extended(struct fake_broker *b, const char *extensions);

/* Reads the request; its steps say all of the answer: fake_raw ... */
void fake_plain(struct fake_broker *b);

/* Accepts and closes, without a word. */
void fake_nothing(struct fake_broker *b);

/* Reads the request, and closes without a word. */
void fake_silence(struct fake_broker *b);

/* Steps of a stream. The last three, and fake_raw, are plain answers', too. */

void fake_send(struct fake_broker *b, struct slice message);
void fake_send_part(struct fake_broker *b, struct slice part, bool is_first,
                    bool is_last);
void fake_send_binary(struct fake_broker *b, struct slice message);
void fake_ping(struct fake_broker *b);
void fake_close(struct fake_broker *b, unsigned code, const char *reason);
void fake_raw(struct fake_broker *b, struct slice bytes);
void fake_reset(struct fake_broker *b); /* the connection, at once: the last */
void fake_wait(struct fake_broker *b);  /* until fake_go */
/* Until the client has sent so many bytes more. */
void fake_expect(struct fake_broker *b, size_t size);
/* Reads a frame of the client, and adds its text and a line feed to the
 * request, which fake_has_read looks at meanwhile, and fake_request does not.
 */
void fake_command(struct fake_broker *b);
void fake_hold(struct fake_broker *b);

/* Lets one fake_wait go on. */
void fake_go(struct fake_broker *b);

/* Counts the fake_wait and fake_hold that the script has reached. The fake has
 * sent everything that stands before them. */
unsigned fake_n_rests(struct fake_broker *b);

/* The request on connection `i`, head and body; "" if there was none. Those of
 * fake_describe do not count. Valid, and the same, until fake_broker_free.
 */
const char *fake_request(struct fake_broker *b, size_t i);

/* True if the request on connection `i`, with its commands so far, has `text`.
 */
bool fake_has_read(struct fake_broker *b, size_t i, const char *text);

#endif
