/*
 * library_test.c - libtidings as its users get it: installed, with nothing of
 * the checkout in reach, found by pkg-config and by CMake, linked shared and
 * static, from C and from C++; it exports nothing but what its headers declare.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/places.h"
#include "tests/support/broker.h"
#include "tests/support/sanitized.h"
#include "tests/support/shell.h"
#include "tests/test.h"

#define BUILD  BIN_DIR "/.."
#define SOURCE SPEC_DIR "/../.."
#define STRICT "-Wall -Wextra -pedantic -Werror"

struct stage {
    struct broker broker;
    struct tempdir dir;
    char pc[400]; /* where tidings.pc is */
};

static int
set_up(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));
    char *lib;

    assert_non_null(s);
    tempdir_open(&s->dir);
    shell_do("cmake --install " BUILD " --prefix %s/prefix", s->dir.path);
    setenv("PREFIX", s->dir.path, 1);
    shell_do("mkdir $PREFIX/examples && cp "
             "$PREFIX/prefix/share/doc/tidings/examples/*.c $PREFIX/examples");
    lib = shell("cd $PREFIX/prefix && dirname $(find $PWD -name tidings.pc) | "
                "xargs dirname | tr -d '\\n'");
    setenv("LIB", lib, 1);
    snprintf(s->pc, sizeof(s->pc), "%s/pkgconfig", lib);
    setenv("PKG_CONFIG_PATH", s->pc, 1);
    free(lib);
    broker_open(&s->broker, NULL);
    setenv("BROKER", s->broker.url, 1);
    *state = s;
    return 0;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    broker_close(&s->broker);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

/* Publishes to a set of its own; the program is `publish` in the directory. */
static void
assert_publishes(const char *directory, const char *set)
{
    char *said =
        shell("cd $PREFIX/%s && printf '%%s' "
              "'{\"loc\":\"http://example.com/a\",\"change\":\"updated\"}' "
              "| ./publish $BROKER/sets/%s",
              directory, set);

    assert_non_null(strstr(said, "-1\n"));
    free(said);
    said = shell("curl -sS $BROKER/sets/%s/changes?after=0", set);
    assert_non_null(strstr(said, "http://example.com/a"));
    free(said);
}

/* A program would need the compiler's runtime library for it. */
static void
leave_sanitizers_out(void)
{
    if (IS_SANITIZED)
        skip();
}

TEST_GROUP(NULL, set_up, tear_down);

TEST(a_program_is_built_by_pkg_config)
{
    leave_sanitizers_out();
    shell_do("mkdir $PREFIX/shared && cd $PREFIX/shared && for e in publish "
             "follow poll; do cc -std=c99 " STRICT " $PREFIX/examples/$e.c "
             "-D_POSIX_C_SOURCE=200809L $(pkg-config --cflags --libs tidings) "
             "-Wl,-rpath,$LIB -MD -o $e || exit 1; done && "
             "grep -q include/tidings_client.h *.d && ! grep "
             "\"$(realpath " SOURCE ")/\" *.d");
    shell_do("ldd $PREFIX/shared/publish | grep -q \"$LIB/libtidings.so.1\"");
    assert_publishes("shared", "shared");
}

TEST(a_program_may_have_the_library_inside)
{
    char *needed;

    leave_sanitizers_out();
    shell_do("mkdir $PREFIX/static && cd $PREFIX/static && cc -std=c99 " STRICT
             " $PREFIX/examples/publish.c $(pkg-config --cflags "
             "--libs tidings-static) -o publish");
    needed = shell("readelf -d $PREFIX/static/publish");
    assert_null(strstr(needed, "libtidings"));
    free(needed);
    assert_publishes("static", "static");
}

TEST(cmake_finds_both_libraries)
{
    leave_sanitizers_out();
    shell_do(
        "mkdir $PREFIX/cmake && cd $PREFIX/cmake && cat > CMakeLists.txt "
        "<<'END'\n"
        "cmake_minimum_required(VERSION 3.16)\n"
        "project(mine C)\n"
        "find_package(tidings 1.0 REQUIRED)\n"
        "foreach(kind tidings static)\n"
        "  add_executable(publish_${kind} $ENV{PREFIX}/examples/publish.c)\n"
        "  target_link_libraries(publish_${kind} tidings::${kind})\n"
        "endforeach()\n"
        "END\n"
        "cmake -S . -B b -DCMAKE_PREFIX_PATH=$PREFIX/prefix && cmake --build b "
        "&& mkdir a && cp b/publish_tidings a/publish && mv b/publish_static "
        "b/publish");
    assert_publishes("cmake/a", "found");
    assert_publishes("cmake/b", "found-static");
}

TEST(a_program_of_cpp_links_with_it)
{
    leave_sanitizers_out();
    shell_do(
        "mkdir $PREFIX/cpp && cd $PREFIX/cpp && cat > a.cc <<'END'\n"
        "#include <tidings.h>\n"
        "int main(int, char **argv) {\n"
        "  const char change[] = \"{\\\"loc\\\":\\\"http://a.example/b\\\",\"\n"
        "    \"\\\"change\\\":\\\"updated\\\"}\";\n"
        "  td_client *client = td_open();\n"
        "  td_receipt receipt;\n"
        "  td_status rc = td_publish(client, argv[1], argv[2], change,\n"
        "    sizeof(change) - 1, 0, &receipt);\n"
        "  td_close(client);\n"
        "  return rc == TD_OK && receipt.last == 1 ? 0 : 1;\n"
        "}\n"
        "END\n"
        "c++ -std=c++11 " STRICT " a.cc $(pkg-config --cflags --libs "
        "tidings) -Wl,-rpath,$LIB && "
        "./a.out $BROKER/sets/cpp application/json");
}

TEST(every_header_stands_alone_in_strict_c_and_cpp)
{
    shell_do(
        "cd $PREFIX/prefix/include && for h in tidings*.h; do\n"
        "echo $h\n"
        "gcc -std=c99 " STRICT " -Wstrict-prototypes -fsyntax-only -x c $h "
        "|| exit 1\n"
        "g++ -std=c++98 " STRICT " -Wno-long-long -fsyntax-only -x c++ $h "
        "|| exit 1\n"
        "if command -v clang >/dev/null; then clang -std=c99 " STRICT
        " -Wno-pragma-once-outside-header -fsyntax-only -x c $h || exit 1\n"
        "fi; done");
}

/* The names that the headers declare, sorted, a line each. */
#define DECLARED                                                              \
    "cat $PREFIX/prefix/include/tidings_*.h | tr '\\n' ' ' | "                \
    "sed 's|/[*]|\\n&|g; s|[*]/|&\\n|g' | grep -v '^/[*]' | tr '\\n' ' ' | "  \
    "grep -oE 'TD_API [^;(]*\\(' | grep -oE 'td_[a-z0-9_]+\\($' | tr -d '(' " \
    "| sort"

static void
assert_same_names(const char *expected, const char *found)
{
    char *declared = shell("%s", expected), *there = shell("%s", found);

    assert_true(strlen(declared) > 100);
    assert_string_equal(there, declared);
    free(declared);
    free(there);
}

/* One with another version in a later release would have another section. */
TEST(what_the_headers_declare_has_a_version)
{
    assert_same_names(DECLARED,
                      "grep -oE '^ *td_[a-z0-9_]+;' " SOURCE
                      "/client/packaging/tidings.map | tr -d ' ;' | sort");
}

TEST(the_shared_library_exports_what_the_headers_declare)
{
    assert_same_names(DECLARED, "nm -D --defined-only $LIB/libtidings.so | awk "
                                "'$2 != \"A\" { print $3 }' | sed "
                                "'s/@@TIDINGS_[0-9.]*$//' | sort");
}

TEST(the_static_library_shows_what_the_headers_declare)
{
    leave_sanitizers_out();
    assert_same_names(DECLARED, "nm -g --defined-only $LIB/libtidings.a | awk "
                                "'NF == 3 { print $3 }' | sort");
}

TEST(the_library_ends_no_process_and_prints_nothing)
{
    char *bad;

    leave_sanitizers_out();
    bad =
        shell("nm -D --undefined-only $LIB/libtidings.so | grep -E ' "
              "(exit|_exit|quick_exit|signal|printf|puts|putchar|perror)(@|$)'"
              " || :");
    assert_string_equal(bad, "");
    free(bad);
}
