/*
 * disk.h - a disk that fails: it stands before SQLite's own.
 *
 *     TEST_GROUP(NULL, disk_setup, NULL);
 *
 *     disk_fails(DISK_WRITE_WAL, SQLITE_FULL, 3);     after three writes
 *     disk_mend();
 */
#ifndef TESTS_UNIT_BASE_DISK_H
#define TESTS_UNIT_BASE_DISK_H

/* Calls that fail. A database has other methods than its WAL.
 */
#define DISK_WRITE_DATABASE 1
#define DISK_SYNC_DATABASE  2
#define DISK_WRITE_WAL      4
#define DISK_SYNC_WAL       8
#define DISK_ALL            15

/* Puts the disk below databases that are opened from now on. */
int disk_setup(void **state);

/* After `n` successful calls of these kinds, each fails with this result of
 * SQLite and with the errno that belongs to it; disk_fails_as: with another
 * errno. */
void disk_fails(int calls, int result, int n);
void disk_fails_as(int calls, int result, int error, int n);
void disk_mend(void);

#endif
