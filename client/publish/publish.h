/*
 * publish.h - what all posts share: a key, a receipt, a refusal.
 */
#pragma once

#include "client/lib/fetch.h"
#include "client/lib/json_fields.h"
#include "client/tidings.h"
#include "proto/http/idempotency_key.h"

/* {"set":"...","first":1,"last":3,"position":"...","datetime":"..."} */
#define POST_ANSWER_MAX 65536

/* 128 random bits, hexadecimal, and a NUL. */
#define POST_KEY_SIZE 33

/* "Idempotency-Key: ..." and a NUL. */
#define POST_KEY_LINE (KEY_QUOTED_MAX + 32)

/* The header line of a valid key. */
void post_key_line(char line[POST_KEY_LINE], struct slice key);

/* Reads the members of an answer. False: one of the first `n_needed` is
 * missing, or it is not JSON. */
bool post_answer(struct slice body, struct json_fields_member *members,
                 size_t n, size_t n_needed);

/* What the answer to a post means. STATUS_OK: it is kept; STATUS_UNREACHABLE:
 * the same post again, later; STATUS_MALFORMED: no receipt; else refused. */
enum status post_outcome(const struct fetch_answer *answer,
                         struct td_receipt *receipt, struct problem *why);
