#include <stddef.h>

#include "broker/mqtt/mqtt.h"

/* MQTT 5, section 2.4: the reasons in CONNACK, DISCONNECT, PUBACK and
 * SUBACK. */
static const struct reason {
    int code;
    const char *words;
} reasons[] = {
    {0x80, "no reason is given"},
    {0x81, "malformed packet"},
    {0x82, "protocol error"},
    {0x83, "implementation specific error"},
    {0x84, "protocol version not supported"},
    {0x85, "client identifier not valid"},
    {0x86, "bad user name or password"},
    {0x87, "not authorized"},
    {0x88, "server unavailable"},
    {0x89, "server busy"},
    {0x8A, "banned"},
    {0x8B, "server shutting down"},
    {0x8C, "bad authentication method"},
    {0x8D, "keep alive timeout"},
    {0x8E, "session taken over: another client has the same client id"},
    {0x8F, "topic filter not valid"},
    {0x90, "topic name not valid"},
    {0x91, "packet identifier in use"},
    {0x93, "receive maximum exceeded"},
    {0x94, "topic alias not valid"},
    {0x95, "packet too large"},
    {0x96, "message rate too high"},
    {0x97, "quota exceeded"},
    {0x98, "administrative action"},
    {0x99, "payload format not valid"},
    {0x9A, "retained messages not supported"},
    {0x9B, "QoS not supported"},
    {0x9C, "use another server"},
    {0x9D, "server moved"},
    {0x9E, "shared subscriptions not supported"},
    {0x9F, "connection rate exceeded"},
    {0xA0, "maximum connect time"},
    {0xA1, "subscription identifiers not supported"},
    {0xA2, "wildcard subscriptions not supported"},
};

const char *
mqtt_reason(int code)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].code == code)
            return reasons[i].words;
    return code < MQTT_REASON_FAILED ? "success" : "unknown reason";
}
