/*
 * rotate.h - asks for a list to be closed by age or on demand; files what
 * closed.
 *
 * Archive thread, except rotate_demand.
 */
#ifndef BROKER_ARCHIVE_ROTATE_H
#define BROKER_ARCHIVE_ROTATE_H

#include <stdbool.h>

#include "broker/log/post.h"
#include "broker/sets/registry.h"

/* Asks the log to close every open list whose first entry is older than
 * --rotate-age, spread by up to a tenth of it so that many sets that began
 * together do not end together. */
void rotate_by_age(struct registry *registry);

/* Files one closed list. false: there was none, or it could not be done now. */
bool rotate_file_one(struct registry *registry);

#endif
