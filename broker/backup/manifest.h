/*
 * manifest.h - the list of all files of a backup.
 *
 *     # tidings backup 1
 *     # set news 4e1f...-250
 *     HEX  000001/sets/news/changes/000000000001.xml.gz
 *     HEX  000002/tidings.db
 *     # missing sets/news/content/ab/HEX: No such file or directory
 *     # end HEX
 *
 * A line of a file has its SHA-256, the folder of the backup that copied it
 * (backup.h), and its path in the data directory: `sha256sum -c manifest`
 * checks them. The last line has the SHA-256 of all lines before it. So a
 * manifest is whole, or no manifest; its rename makes a backup the latest one.
 */
#pragma once

#include "base/file.h"
#include "base/map.h"
#include "proto/resourcesync/digest.h"

#define MANIFEST_NAME "manifest"

/* Longest path of a file in a data directory that a manifest has. */
#define MANIFEST_PATH_MAX 1024

/* For printf: the name of a file in a backup, from its folder and its path
 * ("000001/sets/..."). */
#define MANIFEST_FILE "%06u/%s"

/* Room for the folder and the slash in it, and a NUL. */
#define MANIFEST_FOLDER_SIZE 16

struct manifest_file {
    struct digest digest;
    unsigned folder;
    const char *path;
};

/* Writing: manifest.new says that a backup is under way, or was cut off. */
struct manifest_writer {
    struct file_new file;
    struct digest_check *digests; /* of all lines */
};

MUST_CHECK enum status manifest_begin(struct manifest_writer *writer,
                                      int dir_fd, struct problem *why);
MUST_CHECK enum status manifest_add(struct manifest_writer *writer,
                                    const struct manifest_file *file,
                                    struct problem *why);

/* A comment, with its line end: the last entry of a set, or a file that is not
 * in the backup. */
#define MANIFEST_MISSING "# missing "
MUST_CHECK enum status manifest_add_line(struct manifest_writer *writer,
                                         struct problem *why,
                                         const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Makes it the manifest of the directory, durably. The files are on the disk.
 * Ends the writer, also if it fails. */
MUST_CHECK enum status manifest_finish(struct manifest_writer *writer,
                                       struct problem *why);
void manifest_abandon(struct manifest_writer *writer);

/* Reading. Each function may be NULL. The texts are lent. */
struct manifest_reader {
    enum status (*on_file)(const struct manifest_file *file, void *user,
                           struct problem *why);
    void (*on_missing)(const char *text, void *user); /* "PATH: REASON" */
    void *user;
};

/* Reads the manifest of `dir`, after it has checked all of it.
 * STATUS_NOT_FOUND: there is none. STATUS_DIFFERENT: it is damaged. */
MUST_CHECK enum status manifest_read(const char *dir,
                                     const struct manifest_reader *reader,
                                     struct problem *why);

/* Files of a manifest, by their path. */
struct manifest_entry {
    struct map_node node;
    struct digest digest;
    unsigned folder;
    bool is_fetched; /* backup_fetch.c */
    char path[];
};

/* Adds a file to the map `user`: an on_file. */
MUST_CHECK enum status manifest_note(const struct manifest_file *file,
                                     void *user, struct problem *why);
struct manifest_entry *manifest_find(struct map *map, const char *path);
void manifest_forget(struct map *map); /* frees all entries */

/* True if `dir` has the beginning of a manifest, of a backup that was cut off.
 */
bool manifest_is_begun(const char *dir);
