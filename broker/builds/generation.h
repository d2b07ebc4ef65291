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
 *                          archived <--+------------------- left over
 *              swept, a grace later <--+
 *
 * tidings.db (log.h: struct generation) and the head of a set say which
 * generation is current and which are archived, so a reader gets a whole
 * document of one moment. A number is never used twice, not even when a set is
 * removed and made again.
 *
 * In a cluster each broker builds ordered lists (head.h). Their folder gets its
 * name when all files are in it. A list may be current or archived before this
 * broker has built it. Until then its former one is served as the current one,
 * and an archived one is not served.
 *
 *     sets/NAME/resourcelist/000000000008.new/000000000001.xml.gz
 *
 * Archive thread. Any thread may read the files.
 */
#pragma once

#include "broker/builds/zfile.h"
#include "broker/log/head.h"
#include "broker/sets/registry.h"

/* A generation being written. */
struct generation_writer {
    struct set *set;
    bool is_shared;               /* of a cluster */
    struct generation generation; /* a caller may set `parts`, where that is not
                                     the number of documents, and adds the bytes
                                     of its own files */
    int folder_fd;                /* of all generations */
    int dir_fd; /* of this one; for files that the caller writes durably */
    struct zfile_writer *zfile;
    struct buf text; /* of the document, which a caller adds: not yet in it */
};

/* The kinds of its files, each with the number of its part. */
enum generation_file {
    GENERATION_DOCUMENT, /* 000000000001.xml.gz, a zfile */
    GENERATION_MANIFEST, /* 000000000001-manifest.xml.gz, a zfile */
    GENERATION_PACKAGE   /* 000000000001.zip */
};

/* Name of a file, terminated. */
#define GENERATION_NAME_SIZE 48
void generation_name(char to[GENERATION_NAME_SIZE], enum generation_file file,
                     uint64_t part);

/* Begins a build of the set with the kind and position in `generation`, and
 * sets its number, unless it has one: that of its order. A set has one build of
 * a kind at a time. STATUS_GONE: the set was removed.
 */
MUST_CHECK enum status generation_begin(struct generation_writer **writer,
                                        struct set *set,
                                        struct generation *generation,
                                        struct problem *why);

/* Begins a document, whose text the caller adds, and ends the previous one. A
 * list has parts 1, 2, ... in order, then the index, if there are several; a
 * dump has its manifests, then part 1. */
#define GENERATION_INDEX 0
MUST_CHECK enum status generation_part(struct generation_writer *writer,
                                       enum generation_file file, uint64_t part,
                                       struct problem *why);

/* Hands the text over, and empties it, if there is much of it: after each
 * entry. STATUS_STOPPED: the log is ending. */
MUST_CHECK enum status generation_flush(struct generation_writer *writer,
                                        struct problem *why);

/* Fails if the log is ending, which could not commit the result:
 * STATUS_STOPPED. */
MUST_CHECK enum status
generation_check_ending(const struct generation_writer *writer,
                        struct problem *why);

/* Ends the current document, if any: its file then has its name. */
MUST_CHECK enum status generation_end_part(struct generation_writer *writer,
                                           struct problem *why);

/* Makes the written generation durable, then current, in one commit, and waits
 * for that. An ordered list may be current or archived already, of another
 * broker; STATUS_AGAIN: a later one is current. Frees the writer, also on
 * failure; a failed build leaves nothing on the disk. The next build deletes
 * the files of one that a crash cut off. STATUS_GONE: the set was removed. */
MUST_CHECK enum status generation_finish(struct generation_writer *writer,
                                         struct problem *why);
void generation_abandon(struct generation_writer *writer);

/* A file of a generation. */
struct generation_place {
    enum generation_kind kind;
    uint64_t number; /* of the generation */
    enum generation_file file;
    uint64_t part;
};

/* Sets *generation to the current or archived generation of that number.
 * STATUS_NOT_FOUND: it is neither. May block; any thread. */
MUST_CHECK enum status
generation_find(const struct set *set, const struct head *head,
                enum generation_kind kind, uint64_t number,
                struct generation *generation, struct problem *why);

/* Returns the number of the last generation of the set that is on this disk, up
 * to the current one of `head`; 0: none is. A single broker always has the
 * current one on its disk. May block; any thread. */
uint64_t generation_last_here(const struct set *set, enum generation_kind kind,
                              const struct head *head);

/* True if that generation is on this disk. Without a cluster always. May block;
 * any thread. */
bool generation_is_here(const struct set *set, enum generation_kind kind,
                        uint64_t number);

/* Opens a file of a generation of the set; the caller closes it.
 * STATUS_NOT_FOUND: no such file. May block; any thread. */
MUST_CHECK enum status generation_open(const struct set *set,
                                       const struct generation_place *place,
                                       int *fd, struct problem *why);

/* Deletes one generation that is neither current nor archived, when its grace
 * is over. Returns false if none was due, the deletion failed, or a backup
 * copies files. */
bool generation_sweep_one(struct registry *registry);
