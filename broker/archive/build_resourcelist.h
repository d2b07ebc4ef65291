/*
 * build_resourcelist.h - a Resource List, or the index of several and them,
 * from the state of a set: a part a step, then the index.
 */
#ifndef BROKER_ARCHIVE_BUILD_RESOURCELIST_H
#define BROKER_ARCHIVE_BUILD_RESOURCELIST_H

#include <stdbool.h>

#include "broker/archive/build.h"
#include "broker/sets/registry.h"
#include "broker/state/resources.h"
#include "proto/problem.h"
#include "proto/status.h"

/* Begins a build of a set whose state is whole (resources_at). STATUS_GONE: the
 * set was removed. */
MUST_CHECK enum status
build_resourcelist_begin(struct build **build, struct set *set,
                         const struct resources *resources, bool is_archived,
                         struct problem *why);

#endif
