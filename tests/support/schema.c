#include "tests/support/schema.h"

#include <stdio.h>

#include <libxml/parser.h>
#include <libxml/xmlschemas.h>

#include "tests/places.h"
#include "tests/test.h"

/* One schema per root, read when first needed and kept to the end. */
static struct {
    const char *root;
    const char *path;
    xmlSchema *schema;
} schemas[] = {
    {"urlset", SPEC_DIR "/xsd/rs-urlset.xsd", NULL},
    {"sitemapindex", SPEC_DIR "/xsd/rs-sitemapindex.xsd", NULL},
};

static xmlSchema *
read_schema(const char *path)
{
    xmlSchemaParserCtxt *context = xmlSchemaNewParserCtxt(path);
    xmlSchema *schema = context ? xmlSchemaParse(context) : NULL;

    xmlSchemaFreeParserCtxt(context);
    if (!schema)
        fail_msg("cannot read %s", path);
    return schema;
}

static xmlSchema *
schema_of(const xmlDoc *document)
{
    const xmlNode *root = xmlDocGetRootElement(document);

    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
        if (!xmlStrEqual(root->name, BAD_CAST schemas[i].root))
            continue;
        if (!schemas[i].schema)
            schemas[i].schema = read_schema(schemas[i].path);
        return schemas[i].schema;
    }
    return NULL;
}

void
schema_assert_valid(struct slice document, const char *file, int line)
{
    xmlSchemaValidCtxt *context;
    xmlSchema *schema;
    xmlDoc *read;
    int result;

    read = xmlReadMemory(document.data, (int)document.size, NULL, NULL,
                         XML_PARSE_NONET | XML_PARSE_HUGE);
    schema = read ? schema_of(read) : NULL;
    if (!schema) {
        print_error("neither urlset nor sitemapindex\n");
        xmlFreeDoc(read);
        _fail(file, line);
    }

    context = xmlSchemaNewValidCtxt(schema);
    result = context ? xmlSchemaValidateDoc(context, read) : -1;
    xmlSchemaFreeValidCtxt(context);
    xmlFreeDoc(read);
    if (result) /* libxml2 has said why, on standard error */
        _fail(file, line);
}
