/*
 * packed_file.h - reads a gzip file of the broker, of which every bit counts.
 *
 *     head           10 bytes, and an extra field: as expected
 *     deflate blocks unused bits before a byte boundary are 0
 *     CRC-32, size   of the plain bytes; then the file ends
 *
 * A program that inflates a file passes over some bits: times in the head,
 * padding, places for readers that enter in the middle. The broker sends them
 * all to a client that accepts gzip.
 */
#pragma once

#include "broker/check/inspection.h"

struct packed_file {
    struct slice head;
    uint64_t max_plain; /* most plain bytes */

    /* Sets the n-th place, from 0, at which readers enter: its offset in the
     * file and in the plain bytes. False: there are fewer. */
    bool (*place)(size_t n, uint64_t *at, uint64_t *plain, void *user);
    inspection_bytes_fn *on_plain;
    void *user;
};

/* Reads the open file from its position on. *are_places_right: a block begins
 * at each place, in order. STATUS_MALFORMED: it is damaged; or the status of
 * on_plain. Memory: the file. */
MUST_CHECK enum status packed_file_read(struct inspection *in, int fd,
                                        const struct packed_file *file,
                                        bool *are_places_right,
                                        struct problem *why);
