/*
 * post.h - what all posts have in common: a key, a receipt, a refusal.
 */
#ifndef CLIENT_PUBLISH_POST_H
#define CLIENT_PUBLISH_POST_H

#include <stdbool.h>

#include "client/tidings.h"
#include "proto/key.h"
#include "proto/problem.h"
#include "proto/slice.h"

/* {"set":"...","first":1,"last":3,"position":"...","datetime":"..."} */
#define POST_ANSWER_MAX 65536

/* 128 random bits, hexadecimal, and a NUL. */
#define POST_KEY_SIZE 33

/* "Idempotency-Key: ..." and a NUL. */
#define POST_KEY_LINE (KEY_QUOTED_MAX + 32)

/* False: there are no random numbers. */
bool post_key(char key[POST_KEY_SIZE]);

/* The header line of a valid key. */
void post_key_line(char line[POST_KEY_LINE], struct slice key);

/* Reads the answer of a post that was kept. False: it is no receipt. */
bool post_receipt(struct slice body, struct td_receipt *receipt);

/* Which entry of the post, from 1, application/problem+json names as the fault;
 * 0: none. */
uint64_t post_fault(struct slice body);

#endif
