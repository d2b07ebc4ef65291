/*
 * mqtt_peer.h - the MQTT broker of a benchmark: mosquitto, on this machine.
 */
#ifndef TESTS_BENCH_MQTT_PEER_H
#define TESTS_BENCH_MQTT_PEER_H

#include <sys/types.h>

/* Starts Mosquitto with a configuration in `dir`; it listens on *port when this
 * returns. `inflight`: the most messages that it leaves unacknowledged, in
 * either direction. */
pid_t peer_start(const char *dir, int core, unsigned inflight, unsigned *port);
void peer_stop(pid_t pid);

/* Forks; the child is kept on `core`, and ends with this program. */
pid_t peer_fork(int core);

/* Writes DIR/NAME. */
void peer_write_file(const char *dir, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
