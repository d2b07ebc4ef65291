/*
 * tidings.h - libtidings: publish changes to a set, follow the changes of any
 * ResourceSync source, mirror its resources, verify its history.
 *
 *     tidings_client.h   the handle: its loop, its problem, its stop
 *     tidings_publish.h  post changes, with a spool for an unreachable broker
 *     tidings_source.h   make sets; find what a set or a source offers
 *     tidings_follow.h   every change once, in order, across all failures
 *     tidings_websub.h   the same, pushed to a callback (W3C WebSub)
 *     tidings_mirror.h   resources on disk: sync, audit; verify the history
 *
 * The library has no globals, never ends the process, installs no signal
 * handler and raises no SIGPIPE. Handles share nothing: one thread at a time
 * uses a handle, and different threads use different handles at the same time.
 *
 * Structs given to a function may grow at their end in a later version: the
 * function then has a new symbol version, and older programs keep using the old
 * one.
 */
#ifndef TIDINGS_H
#define TIDINGS_H

#include "tidings_client.h"
#include "tidings_follow.h"
#include "tidings_mirror.h"
#include "tidings_publish.h"
#include "tidings_source.h"
#include "tidings_websub.h"

#endif
