/*
 * mixture.h - entries of every sort, and which of them a filter lets through.
 *
 * Entry N (its number is its seq, where nothing else is posted) is created,
 * updated or deleted; about a resource of "http://example.com/a/" or, with a
 * reference in XML, "http://example.com/b&c/"; of a media type, with parameters
 * perhaps, or none; with tags or none.
 */
#ifndef TESTS_SUPPORT_MIXTURE_H
#define TESTS_SUPPORT_MIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/http.h"

/* A filter, as it stands in a query, and what it means. */
struct mixture_filter {
    const char *query;
    bool (*passes)(uint64_t n);
};

extern const struct mixture_filter mixture_filters[];
extern const size_t mixture_n_filters;

/* Posts entries `from` to `to`, in posts of many sizes. Fails the test if they
 * do not get these seqs. */
void mixture_post(struct http *h, const char *set, uint64_t from, uint64_t to);

#endif
