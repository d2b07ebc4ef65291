/*
 * generation.h - numbered builds of a set's Resource List, Resource Dump and
 * Change Dump: written beside what is there, switched to in one commit of the
 * log, never changed.
 *
 *     sets/NAME/resourcelist/000000000007/000000000001.xml.gz   the parts
 *                                         000000000000.xml.gz   their index
 *     sets/NAME/resourcedump/000000000003/000000000001.xml.gz   the dump
 *                                         000000000001.zip      its packages
 *                                         000000000001-manifest.xml.gz
 *
 *     (nothing) --begin--> being written --finish, commit--> current
 *                              |                               |
 *                              +-- crash: cleared by the next  v
 *                                                 left over --+-> archived
 *                                                             +-> swept, a
 *                                                                 grace later
 *
 * Which generation is current, and which are archived, stands in tidings.db
 * (log.h: struct generation), and in a set's head: who opens a document has all
 * of it from one moment. A number is never given twice, not even when a set is
 * removed and made again.
 *
 * Archive thread. The files are read by anybody.
 */
#ifndef BROKER_ARCHIVE_GENERATION_H
#define BROKER_ARCHIVE_GENERATION_H

#include <stdint.h>

#include "broker/archive/zfile.h"
#include "broker/log/generations.h"
#include "broker/sets/registry.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct generation_writer;

/* What files it has, each with the number of its part. */
enum generation_file {
    GENERATION_DOCUMENT, /* 000000000001.xml.gz, a zfile */
    GENERATION_MANIFEST, /* 000000000001-manifest.xml.gz, a zfile */
    GENERATION_PACKAGE   /* 000000000001.zip */
};

/* Name of a file, terminated. */
#define GENERATION_NAME_SIZE 48
void generation_name(char to[GENERATION_NAME_SIZE], enum generation_file file,
                     uint64_t part);

/* Begins a build of the set: of what kind and position it is stands in
 * `generation`, whose number it sets. One build of a kind of a set at a time.
 * STATUS_GONE: the set was removed.
 */
MUST_CHECK enum status generation_begin(struct generation_writer **writer,
                                        struct set *set,
                                        struct generation *generation,
                                        struct problem *why);

/* Begins a document, which ends the one before it: of a list parts 1, 2, ... in
 * order, then the index, if there are several; of a dump its manifests, then
 * part 1. */
#define GENERATION_INDEX 0
MUST_CHECK enum status generation_part(struct generation_writer *writer,
                                       enum generation_file file, uint64_t part,
                                       struct problem *why);
MUST_CHECK enum status generation_add(struct generation_writer *writer,
                                      struct slice bytes, struct problem *why);

/* Ends the document at hand, if there is one: its file is there then. */
MUST_CHECK enum status generation_end_part(struct generation_writer *writer,
                                           struct problem *why);

/* The open directory for files that others write, each durable, lent; and how
 * large they are. */
int generation_dir(const struct generation_writer *writer);
void generation_count(struct generation_writer *writer, uint64_t bytes);

/* How many parts it has, where that is not the number of its documents. */
void generation_set_parts(struct generation_writer *writer, uint64_t parts);

/* All is written: makes it durable, then current, in one commit; waits for it.
 * Frees the writer, also when it fails: then nothing stays on the disk, nor
 * does anything of a build that a crash cuts off, from the next one on.
 * STATUS_GONE: the set was removed. */
MUST_CHECK enum status generation_finish(struct generation_writer *writer,
                                         struct problem *why);
void generation_abandon(struct generation_writer *writer);

/* Opens a file of a generation; the caller closes it. STATUS_NOT_FOUND: it is
 * not there. May block; any thread. */
MUST_CHECK enum status generation_open(struct registry *registry,
                                       const struct set *set,
                                       enum generation_kind kind,
                                       uint64_t generation,
                                       enum generation_file file, uint64_t part,
                                       int *fd, struct problem *why);

/* Takes one generation off the disk that is neither current nor archived, when
 * its grace is over. false: there was none, or it could not be done now. */
bool generation_sweep_one(struct registry *registry);

#endif
