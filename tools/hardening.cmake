# Options of compiler and linker that make a memory fault harder to exploit, for
# all programs and the library. Builds with sanitizers have none of them: the
# sanitizers stop such faults. CMakeLists.txt makes the code position-independent.
# e2e/hardening checks the result.
include(CheckCCompilerFlag)
include(CheckLinkerFlag)

# Not every processor has control-flow integrity: x86 has the first, ARM the
# second.
foreach(flag -fstack-protector-strong -fstack-clash-protection
        -fcf-protection=full -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "has${flag}" has)
    check_c_compiler_flag(${flag} ${has})
    if(${has})
        add_compile_options(${flag})
    endif()
endforeach()

# The C library's checks need optimisation; without it, it warns. A compiler may
# come with a level of its own.
set(is_optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
add_compile_options($<${is_optimised}:-U_FORTIFY_SOURCE>
                    $<${is_optimised}:-D_FORTIFY_SOURCE=2>)

# The linker marks a program for CET if all of its objects are marked. Debian 12's
# start files are not, so these options demand the mark. Shadow stacks work with
# these files. Their entry points lack the landing pad of indirect branches, which
# matters on no Linux: none enforces it for programs.
foreach(flag -z,relro -z,now -z,ibt -z,shstk)
    string(MAKE_C_IDENTIFIER "has_linker${flag}" has)
    check_linker_flag(C -Wl,${flag} ${has})
    if(${has})
        add_link_options(-Wl,${flag})
    endif()
endforeach()
