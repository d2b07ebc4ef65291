/*
 * fake_mqtt.h - an MQTT broker of a test's own, byte by byte: nothing is read
 * or sent but what the test says. All of the test's own thread.
 *
 *     struct fake_mqtt f;
 *
 *     fake_mqtt_open(&f);          f.port
 *     fake_mqtt_accept(&f);
 *     fake_mqtt_read(&f, 0x10);    CONNECT: f.packet, f.size
 *     FAKE_MQTT_SEND(&f, 0x20, 3, 0, 0, 0);
 *     fake_mqtt_close(&f);
 */
#ifndef TESTS_UNIT_MQTT_FAKE_MQTT_H
#define TESTS_UNIT_MQTT_FAKE_MQTT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_mqtt {
    int listener, fd;
    unsigned port;
    uint8_t packet[4096]; /* of the last one, the bytes behind its length */
    size_t size;
};

/* On a free port of 127.0.0.1. */
void fake_mqtt_open(struct fake_mqtt *f);
void fake_mqtt_close(struct fake_mqtt *f);

/* Waits for a connection; hangs up on the one before. */
void fake_mqtt_accept(struct fake_mqtt *f);
void fake_mqtt_hang_up(struct fake_mqtt *f);

/* Accepts, reads CONNECT, sends a CONNACK: MQTT 5 with nothing in it, or of
 * 3.1.1. */
void fake_mqtt_welcome(struct fake_mqtt *f, bool is_5);

/* Waits for a packet, which must begin with `first`. */
void fake_mqtt_read(struct fake_mqtt *f, uint8_t first);

/* Nothing has come. */
void fake_mqtt_assert_silent(struct fake_mqtt *f);

/* The other side hangs up without having sent anything more. */
void fake_mqtt_assert_end(struct fake_mqtt *f);

/* Reads all bytes until the other side hangs up; hangs up, too. */
void fake_mqtt_drain(struct fake_mqtt *f);

void fake_mqtt_send(struct fake_mqtt *f, const uint8_t *bytes, size_t size);
#define FAKE_MQTT_SEND(f, ...)                          \
    fake_mqtt_send((f), (const uint8_t[]){__VA_ARGS__}, \
                   sizeof((const uint8_t[]){__VA_ARGS__}))

#endif
