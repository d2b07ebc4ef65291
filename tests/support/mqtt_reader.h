/*
 * mqtt_reader.h - the messages of one set on one topic, as a careful receiver
 * reads them: drops repeats by their positions, accepts no gap.
 *
 *     mqtt_reader_init(&r, hearer, "tidings/news/notifications", NOTICE_JSON);
 *     mqtt_reader_until(&r, 7);
 *     ... r.trace ...
 *     mqtt_reader_fini(&r);
 *
 * Each message is checked by itself (notice.h), against its own content type
 * and user properties where it has some, and against those before it: it begins
 * where the last one ended, or is one that was heard already, with the same
 * ends.
 */
#ifndef TESTS_SUPPORT_MQTT_READER_H
#define TESTS_SUPPORT_MQTT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/mqtt_peer.h"
#include "tests/support/notice.h"
#include "tests/support/trace.h"

struct mqtt_reader {
    struct mqtt_peer *peer;
    char topic[400];
    enum notice_form form;
    bool is_311; /* there are no properties; else there have to be */
    size_t at;   /* of the peer's messages, the next one to look at */

    struct trace trace; /* with digests, of messages in XML */
    uint64_t *lasts;    /* where the message after entry i ended; 0: none */
    size_t n_lasts;
    size_t n_messages; /* repeats left out */
    size_t n_repeats;
    size_t largest; /* payload */
};

/* From the set's first entry on. */
void mqtt_reader_init(struct mqtt_reader *r, struct mqtt_peer *peer,
                      const char *topic, enum notice_form form);

/* From the entry after `after` on. */
void mqtt_reader_init_after(struct mqtt_reader *r, struct mqtt_peer *peer,
                            const char *topic, enum notice_form form,
                            uint64_t after);
void mqtt_reader_fini(struct mqtt_reader *r);

/* Reads until it has heard entry `last`; fails the test if there is more in
 * that message. */
void mqtt_reader_until(struct mqtt_reader *r, uint64_t last);

#endif
