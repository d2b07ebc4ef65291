/*
 * set_changes.h - settings and removals of a test's own, waited for.
 */
#ifndef TESTS_SUPPORT_SET_CHANGES_H
#define TESTS_SUPPORT_SET_CHANGES_H

#include "broker/sets/set_change.h"
#include "tests/support/sets.h"

/* What a change of settings comes to. */
enum status set_changes_try(struct sets *s, const char *name,
                            enum set_change_mode mode, const char *settings);

/* Gives the set these settings, which must be accepted. */
void set_changes_put(struct sets *s, const char *name, const char *settings);

/* Gives it the report of a harvester. */
void set_changes_harvest(struct sets *s, const char *name,
                         struct harvest *harvest);

/* Removes it; it must exist. */
void set_changes_remove(struct sets *s, const char *name);

#endif
