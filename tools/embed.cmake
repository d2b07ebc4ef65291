# cmake -DFILE=web/a-b.js -DNAME=web_a_b_js -DOUT=FILE.c -P tools/embed.cmake
#
# Writes a C file with the bytes of FILE, plain and in gzip, as
# `const struct web_file NAME` (broker/documents/web_files.h).

function(bytes_of file out)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
    string(REGEX REPLACE "(................................................................................)"
           "\\1\n    " hex "${hex}")
    set(${out} "${hex}" PARENT_SCOPE)
endfunction()

# Without a name and a time, so that the same file always has the same bytes.
execute_process(COMMAND gzip -9nc ${FILE} OUTPUT_FILE ${OUT}.gz
                COMMAND_ERROR_IS_FATAL ANY)
bytes_of(${FILE} plain)
bytes_of(${OUT}.gz packed)
file(REMOVE ${OUT}.gz)

file(SHA256 ${FILE} tag)
string(REGEX REPLACE "(..)" "0x\\1," tag "${tag}")

file(WRITE ${OUT} "#include \"broker/documents/web_files.h\"

static const unsigned char plain[] = {
    ${plain} 0x00};
static const unsigned char packed[] = {
    ${packed}};

const struct web_file ${NAME} = {
    {(const char *)plain, sizeof(plain) - 1},
    {(const char *)packed, sizeof(packed)},
    {{${tag}}}};
")
