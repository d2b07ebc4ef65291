/*
 * test.h - what every file of tests includes: cmocka, and tests that register
 * themselves.
 *
 *     FIXTURE(open_log, close_log);          for the tests below it
 *
 *     TEST(keeps_what_was_committed)         static void, with void **state
 *     {
 *         assert_int_equal(log_last(*state), 3);
 *     }
 *
 *     TEST(survives_a_full_disk, open_on_small_disk, close_log)
 *     {
 *         ...
 *     }
 *
 * All files of a folder are one program (tests/CMakeLists.txt); its main is in
 * test.c. The tests of each file run in a process of their own, in the order of
 * the file:
 *
 *     build/dev/tests/unit_log               all files
 *     build/dev/tests/unit_log tail          tail_test.c
 *     build/dev/tests/unit_log tail/wakes    its tests with "wakes" in the name
 *     build/dev/tests/unit_log --list
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* After so many seconds in which they could run (able_time.h) the tests of one
 * file count as hanging, and are killed; TEST_WATCHDOG_S in the environment
 * overrides the number. Nothing else in a unit test has a deadline. */
#define TEST_WATCHDOG_S 600

struct test {
    const char *name;
    const char *file;
    void (*run)(void **state);
    int (*setup)(void **state); /* NULL: the file's FIXTURE, or none */
    int (*teardown)(void **state);
    void *initial_state;
    struct test *next;
};

struct test_fixture {
    const char *file;
    int (*setup)(void **state);
    int (*teardown)(void **state);
};

struct test_group {
    const char *name;
    const char *file;
    int (*setup)(void **state);
    int (*teardown)(void **state);
    struct test_group *next;
};

struct test_program {
    const char *name;
    int (*run)(char **argv);
    struct test_program *next;
};

/* Waits until another thread, or process, has made `condition` true, if no
 * event announces that. Prefer an event: a read, a join, a condition, an
 * exit. */
#define AWAIT(condition)                                      \
    do                                                        \
        for (unsigned n_looks_ = 0; !(condition); n_looks_++) \
            test_yield(n_looks_);                             \
    while (0)

void test_yield(unsigned n_looks);

/* Where the choices of a random test begin: TIDINGS_SEED if it is set, always
 * the same number in CI, any in tests/soak. It is printed. */
uint64_t test_seed(void);

/* The size of a test that has a long form: `normal` in CI, `soak` for
 * tests/soak. */
unsigned long test_size(unsigned long normal, unsigned long soak);

#define TEST_CONCAT_(a, b) a##b
#define TEST_CONCAT(a, b)  TEST_CONCAT_(a, b)
#define TEST_ON_LOAD(what)                                     \
    __attribute__((constructor)) static void TEST_CONCAT(what, \
                                                         __COUNTER__)(void)

/* TEST(name[, setup[, teardown[, initial_state]]]) */
#define TEST(test_name, ...)                                                   \
    static void test_name(void **state);                                       \
    static struct test test_of_##test_name = {#test_name, __FILE__, test_name, \
                                              __VA_ARGS__};                    \
    __attribute__((constructor)) static void add_##test_name(void)             \
    {                                                                          \
        test_add(&test_of_##test_name);                                        \
    }                                                                          \
    static void test_name(__attribute__((unused)) void **state)

/* The fixture of the tests that follow in this file and name none. */
#define FIXTURE(setup, teardown)                                          \
    TEST_ON_LOAD(test_fixture_)                                           \
    {                                                                     \
        static const struct test_fixture fixture = {__BASE_FILE__, setup, \
                                                    teardown};            \
                                                                          \
        test_set_fixture(&fixture);                                       \
    }                                                                     \
    struct test_fixture

/* Runs the tests of this file under that name, between `setup` and `teardown`.
 * A file with several groups runs once for each. */
#define TEST_GROUP(group_name, setup, teardown)                             \
    TEST_ON_LOAD(test_group_)                                               \
    {                                                                       \
        static struct test_group group = {group_name, __BASE_FILE__, setup, \
                                          teardown, NULL};                  \
                                                                            \
        test_add_group(&group);                                             \
    }                                                                       \
    struct test_group

/* The test program, started with `name` as its first argument, is that program
 * instead: a process that a test starts by /proc/self/exe. */
#define TEST_PROGRAM(program_name, program_main)                          \
    TEST_ON_LOAD(test_program_)                                           \
    {                                                                     \
        static struct test_program program = {program_name, program_main, \
                                              NULL};                      \
                                                                          \
        test_add_program(&program);                                       \
    }                                                                     \
    struct test_program

void test_add(struct test *test);
void test_set_fixture(const struct test_fixture *fixture);
void test_add_group(struct test_group *group);
void test_add_program(struct test_program *program);

#endif
