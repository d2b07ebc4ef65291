/*
 * alterations.h - settings and removals of a test's own, waited for.
 */
#ifndef TESTS_SUPPORT_ALTERATIONS_H
#define TESTS_SUPPORT_ALTERATIONS_H

#include "broker/sets/alteration.h"
#include "tests/support/sets.h"

/* What a change of settings comes to. */
enum status alterations_try(struct sets *s, const char *name,
                            enum alter_mode mode, const char *settings);

/* Gives the set these settings, which must be accepted. */
void alterations_put(struct sets *s, const char *name, const char *settings);

/* Gives it the report of a harvester. */
void alterations_harvest(struct sets *s, const char *name,
                         struct harvest *harvest);

/* Removes it; it must exist. */
void alterations_remove(struct sets *s, const char *name);

#endif
