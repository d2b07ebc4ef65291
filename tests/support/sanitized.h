/*
 * sanitized.h - true if this was built with a sanitizer that changes the use of
 * memory.
 */
#ifndef TESTS_SUPPORT_SANITIZED_H
#define TESTS_SUPPORT_SANITIZED_H

/* A sanitizer keeps freed memory, and shadows all memory: its figures say
 * nothing of the broker's memory. The preset "coverage" sets it, too: such code
 * also needs a runtime library of the compiler. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

#endif
