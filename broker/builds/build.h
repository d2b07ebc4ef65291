/*
 * build.h - builds a generation (generation.h) of a set, a bounded step at a
 * time: a Resource List or a Resource Dump from its state, or the Change Dump
 * of a closed Change List.
 *
 * A generation stands for one position of the log: all entries up to it, none
 * behind it. The root of each document carries that position as td:epoch and
 * td:last beside `at`. A destination that has read the document continues there
 * and misses nothing.
 *
 *     begin --> step ... --> the last step: it is current
 *                  |            |
 *                  +-- failed --+--> nothing stays
 *
 * A Resource List is one document, or several parts and their
 * index: a part a step, then the index. A Resource Dump has
 * the content of the resources in packages, each with its manifest
 * (dump_package.h), and a document that names them:
 *
 *     each package: its entries, into the manifest --> its content, copied
 *                       ^                                     |
 *                       +------- there are more of them ------+--> document
 *
 * A Change Dump has the entries of its list in the same order
 * with the content that each of them describes. The commit that makes
 * it current also archives it. Its packages leave no gap: each begins where the
 * previous one ends. The build plans the end of a package before it
 * writes it, for the manifest begins with that.
 *
 * Between the steps nobody folds the set (state_fold.held). Archive thread.
 */
#pragma once

#include "broker/log/head.h"
#include "broker/sets/registry.h"
#include "broker/state/content.h"
#include "broker/state/resources.h"

struct build;

/* Begins a generation of that kind (not a Change Dump) of a set whose state is
 * whole (resources_at). `order`: what it is in a cluster; NULL: alone. For a
 * dump all of its content must be there (content_has_all). `is_archived`: the
 * commit that makes the generation current also archives it. STATUS_GONE: the
 * set was removed. */
MUST_CHECK enum status build_begin(struct build **build, struct set *set,
                                   enum generation_kind kind,
                                   const struct resources *resources,
                                   const struct generation *order,
                                   bool is_archived, struct problem *why);

/* Begins the dump of a closed list whose content is complete
 * (content_is_complete). `number`: that of a dump that another broker of the
 * cluster has made current, 0: the next one. STATUS_GONE: the set was removed.
 */
MUST_CHECK enum status build_begin_changes(struct build **build,
                                           struct set *set,
                                           const struct list_info *list,
                                           uint64_t number,
                                           struct problem *why);

/* True if the next step reads the content of the set. */
bool build_needs_content(const struct build *build);

/* One step; sets *is_done when the generation is current. `resources` is the
 * state that the build began with (NULL: a list of changes), and `content` that
 * of the set (NULL if the step does not need it), perhaps opened again. The
 * build is freed when it is done and after a failure, which leaves nothing on
 * the disk. STATUS_STOPPED: the log is ending; STATUS_INVALID: content is
 * missing or damaged; STATUS_GONE: the set or the list was removed meanwhile;
 * STATUS_BUSY: a package has no room on the disk; STATUS_AGAIN: other brokers
 * have made a later list current. */
MUST_CHECK enum status build_step(struct build *build,
                                  struct resources *resources,
                                  struct content *content, bool *is_done,
                                  struct problem *why);

/* Leaves nothing. NULL is allowed. */
void build_abandon(struct build *build);

/* The limit in bytes of package `n` of a dump, counted from 0, for this
 * --package-bytes. It grows with `n`, for one document names all packages and
 * has a limit, too. */
uint64_t build_package_limit(uint64_t package_bytes, size_t n);
