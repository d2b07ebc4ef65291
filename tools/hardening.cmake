# What makes a fault of ours harder to use: for all programs and the library, in
# every build without sanitizers, which find such faults themselves. Programs and
# objects are position-independent in CMakeLists.txt. e2e/hardening looks at the
# result.
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

# The linker marks a program for CET if all objects are: those of ours are, but
# Debian 12's start files are not. So the mark is asked for. Shadow stacks hold
# with these files; of indirect branches, only the loader's into them have no
# landing pad, and no Linux refuses them.
foreach(flag -z,relro -z,now -z,ibt -z,shstk)
    string(MAKE_C_IDENTIFIER "has_linker${flag}" has)
    check_linker_flag(C -Wl,${flag} ${has})
    if(${has})
        add_link_options(-Wl,${flag})
    endif()
endforeach()
