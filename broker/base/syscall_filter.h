/*
 * syscall_filter.h - limits the system calls of the process to those that a
 * serving broker needs (seccomp, by libseccomp). Whoever takes over a thread by
 * a fault in a parser or a library finds no way from there to a program,
 * another process, another user or the kernel.
 *
 * Each call belongs to one of three groups:
 *
 * - Allowed: calls of the broker, of its libraries and of the C library, some
 *   only with certain arguments (new threads but no processes, memory that is
 *   writable or executable but not both).
 * - Refused, with EPERM: calls that no library here ever makes. The log gets an
 *   error with the call's name, because somebody attacks.
 * - All others get ENOSYS, as from an older kernel. Libraries expect that of a
 *   call that is new to them, and then use an older one. So an update of the C
 *   library does not stop the broker. A list of forbidden calls alone would
 *   admit every call that a later kernel adds; killing the process would turn
 *   an update into an outage.
 *
 * The filter counts files as no danger of its own: permissions of the data
 * directory's user and the unit of systemd limit these. io_uring is among the
 * others: its operations pass no filter.
 */
#pragma once

#include "proto/problem.h"

/* Before the first loop: no thread gets an io_uring any more. libuv 1.45 and
 * later makes one for each loop, falls back if it gets none, and ends the
 * process if one that it has does not work later. Without a filter for this
 * processor it does nothing. */
void syscall_filter_begin(void);

/* Filters the calls of all threads from now on, for ever; the process, and what
 * it could start, also gains no privileges any more (no_new_privs). Call it
 * when every listening socket listens: listen() is among the refused calls,
 * unless the broker may have to open its sockets again.
 * STATUS_UNSUPPORTED: there is no filter for this processor, or for a build
 * with a sanitizer. STATUS_IO: the kernel refuses; `why` has the reason.
 * Neither changes anything. */
MUST_CHECK enum status syscall_filter_apply(bool may_listen,
                                            struct problem *why);
