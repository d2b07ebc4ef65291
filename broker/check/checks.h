/*
 * checks.h - the parts of a check: a function for each kind of thing in a data
 * directory, one row each in
 * check_command.c. Each opens what it reads, so that a
 * second look sees it anew.
 */
#pragma once

#include "broker/check/inspection.h"

/* Names, permissions and owners of all files, and files of no row. */
void check_names(struct inspection *in);

/* Uploads that wait. */
void check_uploads(struct inspection *in);

/* Opens a database and finds what breaks its rules. Other than STATUS_OK: it
 * cannot be used, and is closed. STATUS_NOT_FOUND: it is missing, or empty. */
MUST_CHECK enum status check_rules(struct inspection *in, enum database_id id,
                                   const char *path, struct db *db);

/* A set: the entries of its log, in tidings.db and in files of closed lists,
 * one after the other; its resources and content against them; its builds. */
void check_log(struct inspection *in, const struct inspected_set *set);
void check_builds(struct inspection *in, const struct inspected_set *set);
void check_content(struct inspection *in, const struct inspected_set *set);
