#include "tests/unit/mqtt/fake_mqtt.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/test.h"

void
fake_mqtt_open(struct fake_mqtt *f)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof(at);

    *f = (struct fake_mqtt){.fd = -1};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(f->listener, 16), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&at, &size),
                     0);
    f->port = ntohs(at.sin_port);
}

void
fake_mqtt_hang_up(struct fake_mqtt *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

void
fake_mqtt_close(struct fake_mqtt *f)
{
    fake_mqtt_hang_up(f);
    close(f->listener);
}

void
fake_mqtt_accept(struct fake_mqtt *f)
{
    fake_mqtt_hang_up(f);
    f->fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(f->fd >= 0);
}

static uint8_t
read_byte(struct fake_mqtt *f)
{
    uint8_t byte;

    assert_int_equal(read(f->fd, &byte, 1), 1);
    return byte;
}

void
fake_mqtt_read(struct fake_mqtt *f, uint8_t first)
{
    unsigned shift = 0;
    uint8_t byte;

    assert_int_equal(read_byte(f), first);
    f->size = 0;
    do {
        byte = read_byte(f);
        f->size |= (size_t)(byte & 127) << shift;
        shift += 7;
    } while (byte & 128);
    assert_true(f->size <= sizeof(f->packet));
    for (size_t i = 0; i < f->size; i++)
        f->packet[i] = read_byte(f);
}

void
fake_mqtt_assert_silent(struct fake_mqtt *f)
{
    struct pollfd p = {f->fd, POLLIN, 0};

    assert_int_equal(poll(&p, 1, 0), 0);
}

void
fake_mqtt_assert_end(struct fake_mqtt *f)
{
    uint8_t byte;

    assert_true(read(f->fd, &byte, 1) <= 0); /* an end, or a reset */
}

void
fake_mqtt_drain(struct fake_mqtt *f)
{
    char unread[4096];

    while (f->fd >= 0 && read(f->fd, unread, sizeof(unread)) > 0)
        ;
    fake_mqtt_hang_up(f);
}

void
fake_mqtt_send(struct fake_mqtt *f, const uint8_t *bytes, size_t size)
{
    assert_int_equal(send(f->fd, bytes, size, MSG_NOSIGNAL), size);
}

void
fake_mqtt_welcome(struct fake_mqtt *f, bool is_5)
{
    fake_mqtt_accept(f);
    fake_mqtt_read(f, 0x10);
    if (is_5)
        FAKE_MQTT_SEND(f, 0x20, 3, 0, 0, 0);
    else
        FAKE_MQTT_SEND(f, 0x20, 2, 0, 0);
}
