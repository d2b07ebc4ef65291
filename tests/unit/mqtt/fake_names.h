/*
 * fake_names.h - host names of a test's own. The C library resolves all other
 * names.
 *
 *     several.test   has addresses of which only the last one, 127.0.0.1, leads
 *                    somewhere
 *     unknown.test   is not known
 *     slow.test      has no answer while names are held; then "try again"
 */
#ifndef TESTS_UNIT_MQTT_FAKE_NAMES_H
#define TESTS_UNIT_MQTT_FAKE_NAMES_H

void fake_names_hold(void);
void fake_names_let_go(void);

#endif
