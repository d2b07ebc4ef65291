# cmake -DEXAMPLES="FILE;..." -DOUT=DIR -P tools/documents.cmake
#
# Writes the pages of README.md and doc/ into DIR as they are installed. A link to
# another page stays; one to an example leads to DIR/examples, where the caller installs
# that; one to another file of the sources becomes the name of the file.
cmake_minimum_required(VERSION 3.21)
get_filename_component(top ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
file(GLOB pages RELATIVE ${top} ${top}/README.md ${top}/CHANGELOG.md
     ${top}/SECURITY.md ${top}/doc/*.md)
file(GLOB others RELATIVE ${top} ${top}/doc/*.svg ${top}/doc/*.png
     ${top}/doc/*.pl ${top}/doc/*.ini)

file(REMOVE_RECURSE ${OUT})
foreach(page IN LISTS pages)
    file(READ ${top}/${page} text)
    get_filename_component(folder ${top}/${page} DIRECTORY)
    file(RELATIVE_PATH up ${folder} ${top})

    # Also words in brackets, which are no files.
    string(REGEX MATCHALL "\\([A-Za-z0-9_./-]+" links "${text}")
    list(REMOVE_DUPLICATES links)
    foreach(link IN LISTS links)
        string(SUBSTRING ${link} 1 -1 link)
        file(REAL_PATH ${link} path BASE_DIRECTORY ${folder})
        file(RELATIVE_PATH path ${top} ${path})
        if(path IN_LIST EXAMPLES)
            get_filename_component(name ${path} NAME)
            string(REPLACE "](${link})" "](${up}examples/${name})" text "${text}")
        elseif(EXISTS ${top}/${path} AND NOT path IN_LIST pages
               AND NOT path IN_LIST others)
            string(REPLACE "[${path}](${link})" "`${path}` of the sources" text
                   "${text}")
            string(REGEX REPLACE "([.+])" "\\\\\\1" pattern "${link}")
            string(REGEX REPLACE "\\[([^]]*)\\]\\(${pattern}(#[^)]*)?\\)"
                   "\\1 (`${path}` of the sources)" text "${text}")
        endif()
    endforeach()
    file(WRITE ${OUT}/${page} "${text}")
endforeach()
foreach(file IN LISTS others)
    configure_file(${top}/${file} ${OUT}/${file} COPYONLY)
endforeach()
