/*
 * parts.h - the parts of a check: a function for each kind of thing in a data
 * directory, one row each in check.c. Each opens what it reads, so that a
 * second look sees it anew.
 */
#ifndef BROKER_CHECK_PARTS_H
#define BROKER_CHECK_PARTS_H

#include "broker/check/inspection.h"

/* Names, permissions and owners of all files, and files of no row. */
void check_names(struct inspection *in);

/* Rows of tidings.db. */
void check_store(struct inspection *in);

/* tokens.db. */
void check_tokens(struct inspection *in);

/* hub.db against the logs; likewise mqtt.db; uploads that wait. */
void check_hub(struct inspection *in);
void check_bridges(struct inspection *in);
void check_uploads(struct inspection *in);

/* A set: the entries of its log, in tidings.db and in files of closed lists,
 * one after the other; its resources and content against them; its builds. */
void check_log(struct inspection *in, const struct inspected_set *set);
void check_builds(struct inspection *in, const struct inspected_set *set);
void check_content(struct inspection *in, const struct inspected_set *set);

#endif
