-- The answer to a request of OAI-PMH 2.0: the first columns of all rows that
-- these statements return. Without any, the request must come again.
--
--     given, facts --> error, or list --> page --> XML

BEGIN;

-- The request

CREATE TEMP TABLE rule(verb TEXT, name TEXT, is_needed INTEGER);
INSERT INTO rule VALUES
    ('Identify', '', 0),
    ('ListMetadataFormats', 'identifier', 0),
    ('ListSets', 'resumptionToken', 0),
    ('GetRecord', 'identifier', 1),
    ('GetRecord', 'metadataPrefix', 1),
    ('ListIdentifiers', 'metadataPrefix', 1),
    ('ListIdentifiers', 'from', 0),
    ('ListIdentifiers', 'until', 0),
    ('ListIdentifiers', 'set', 0),
    ('ListIdentifiers', 'resumptionToken', 0);
INSERT INTO rule
    SELECT 'ListRecords', name, is_needed FROM rule
    WHERE verb = 'ListIdentifiers';

CREATE TEMP TABLE ask AS
    SELECT max(value) FILTER (WHERE name = 'verb') AS verb,
           max(value) FILTER (WHERE name = 'identifier') AS identifier,
           max(value) FILTER (WHERE name = 'metadataPrefix') AS prefix,
           max(value) FILTER (WHERE name = 'set') AS spec,
           max(value) FILTER (WHERE name = 'resumptionToken') AS token
    FROM given;

CREATE TEMP TABLE moment AS
    SELECT name, value, length(value) = 10 AS is_day, unixepoch(value) AS s
    FROM given WHERE name IN ('from', 'until');

-- Errors; the first one counts. Another request may have begun the records anew.

CREATE TEMP TABLE error(id INTEGER PRIMARY KEY, code TEXT, text TEXT);

INSERT INTO error(code)
    SELECT 'later' FROM facts
    WHERE NOT EXISTS(SELECT 1 FROM state
                     WHERE epoch = facts.epoch AND seq >= facts.seq);

INSERT INTO error(code, text)
    SELECT 'badVerb', iif(n = 0, 'the verb is missing',
                      iif(n = 1, verb || ' is no verb', 'there are two verbs'))
    FROM ask, (SELECT count(*) AS n FROM given WHERE name = 'verb')
    WHERE n <> 1 OR verb NOT IN (SELECT verb FROM rule);
INSERT INTO error(code, text)
    SELECT 'badArgument', 'an argument does not belong here' FROM given, ask
    WHERE name <> 'verb' AND
          (name = '' OR
           name NOT IN (SELECT name FROM rule WHERE verb = ask.verb));
INSERT INTO error(code, text)
    SELECT 'badArgument', name || ' comes twice' FROM given
    GROUP BY name HAVING count(*) > 1;
INSERT INTO error(code, text)
    SELECT 'badArgument', 'a resumptionToken comes without other arguments'
    FROM ask WHERE token IS NOT NULL AND (SELECT count(*) FROM given) > 2;
INSERT INTO error(code, text)
    SELECT 'badArgument', name || ' is missing' FROM rule JOIN ask USING(verb)
    WHERE is_needed AND token IS NULL AND
          name NOT IN (SELECT name FROM given);
INSERT INTO error(code, text)
    SELECT 'badArgument', name || ' is no UTCdatetime: ' || value FROM moment
    WHERE value IS NOT
          strftime(iif(is_day, '%Y-%m-%d', '%Y-%m-%dT%H:%M:%SZ'), s,
                   'unixepoch');
INSERT INTO error(code, text)
    SELECT 'badArgument', 'from is later than until, or of another granularity'
    FROM moment AS a, moment AS b
    WHERE a.name = 'from' AND b.name = 'until' AND
          (a.is_day <> b.is_day OR a.s > b.s);
INSERT INTO error(code, text)
    SELECT 'badArgument', 'no setSpec: ' || spec FROM ask
    WHERE instr(':' || spec || ':', '::') OR
          spec GLOB '*[^-A-Za-z0-9._~!*''():]*';
INSERT INTO error(code, text)
    SELECT 'badArgument', 'no metadataPrefix: ' || prefix FROM ask
    WHERE prefix GLOB '*[^-A-Za-z0-9._~!*''()]*';
INSERT INTO error(code, text)
    SELECT 'badArgument', name || ' is empty' FROM given
    WHERE value = '' AND name <> 'resumptionToken';
INSERT INTO error(code, text)
    SELECT 'cannotDisseminateFormat', 'the only format is oai_dc' FROM ask
    WHERE prefix <> 'oai_dc';

-- The list: records from the time `low` to `high`, or sets from `spec` on; `n`
-- went before. It has every change up to `as_of_us`, and the changes up to entry
-- `began` from the state of the set. A token is these:
-- EPOCH/VERB/LOW/HIGH/N/AS_OF/BEGAN/SPEC.

CREATE TEMP TABLE list(low INTEGER, high INTEGER, n INTEGER, as_of_us INTEGER,
                       began INTEGER, spec TEXT);
INSERT INTO list
    SELECT coalesce((SELECT s FROM moment WHERE name = 'from'), 0) * 1000000,
           coalesce((SELECT (s + iif(is_day, 86400, 1)) * 1000000 - 1
                     FROM moment WHERE name = 'until'), 9223372036854775807),
           0, us, began, coalesce(spec, '')
    FROM ask, facts WHERE token IS NULL;
INSERT INTO list
    SELECT fields ->> 2, fields ->> 3, fields ->> 4, fields ->> 5, fields ->> 6,
           fields ->> 7
    FROM (SELECT '["' || replace(token, '/', '","') || '"]' AS fields FROM ask)
    WHERE json_valid(fields);
INSERT INTO error(code, text)
    SELECT 'badResumptionToken', 'no token of this list: ' || token
    FROM ask, facts LEFT JOIN list
    WHERE token <> format('%s/%s/%d/%d/%d/%d/%d/%s', epoch, verb, low, high, n,
                          as_of_us, list.began, list.spec);

-- Another broker of the cluster may have begun the list, and know later changes.
-- Or its records from the state have later times than those here, and the list
-- would pass over these: then the records are made anew, as late as that.
INSERT INTO error(code)
    SELECT 'later' FROM list, facts
    WHERE list.as_of_us > us OR list.began > facts.began;
DELETE FROM state
WHERE began < (SELECT list.began FROM list, facts WHERE list.began <= earliest);

-- Records

CREATE TEMP VIEW header AS
    SELECT us, '<header' || iif(is_deleted, ' status="deleted">', '>')
        || char(10) || '<identifier>' || loc || '</identifier>' || char(10)
        || '<datestamp>'
        || strftime('%Y-%m-%dT%H:%M:%SZ', us / 1000000, 'unixepoch')
        || '</datestamp>' || char(10)
        || coalesce((SELECT group_concat('<setSpec>' || spec || '</setSpec>'
                                         || char(10), '')
                     FROM tags WHERE tags.us = records.us AND spec <> ''), '')
        || '</header>' || char(10) AS xml
    FROM records;

-- The members of the data that have names of Dublin Core; in arrays, too.
CREATE TEMP VIEW dublin_core AS
    SELECT us, (
        SELECT group_concat('<dc:' || name || '>'
                   || replace(replace(atom, '&', '&amp;'), '<', '&lt;')
                   || '</dc:' || name || '>' || char(10), '')
        FROM (SELECT atom, iif(path = '$', key, substr(path, 3)) AS name
              FROM json_tree(iif(json_valid(plain), plain, '{}')))
        WHERE atom <> '' AND name IN (
            'title', 'creator', 'subject', 'description', 'publisher',
            'contributor', 'date', 'type', 'format', 'identifier', 'source',
            'language', 'relation', 'coverage', 'rights')) AS xml
    FROM (SELECT us, replace(replace(replace(replace(data, '&lt;', '<'),
                     '&gt;', '>'), '&quot;', '"'), '&amp;', '&') AS plain
          FROM records);

CREATE TEMP VIEW record AS
    SELECT us, '<record>' || char(10) || header.xml || iif(is_deleted, '',
        '<metadata>' || char(10)
        || '<oai_dc:dc'
        || ' xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"'
        || ' xmlns:dc="http://purl.org/dc/elements/1.1/"'
        || ' xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/'
        || ' http://www.openarchives.org/OAI/2.0/oai_dc.xsd">' || char(10)
        || coalesce('<dc:title>' || nullif(title, '') || '</dc:title>'
                    || char(10), '')
        || coalesce('<dc:creator>' || nullif(author, '') || '</dc:creator>'
                    || char(10), '')
        || coalesce((SELECT group_concat('<dc:subject>' || tag
                                         || '</dc:subject>' || char(10), '')
                     FROM tags WHERE tags.us = records.us), '')
        || coalesce('<dc:description>' || nullif(summary, '')
                    || '</dc:description>' || char(10), '')
        || '<dc:date>' || coalesce(nullif(date, ''), strftime(
               '%Y-%m-%dT%H:%M:%SZ', us / 1000000, 'unixepoch'))
        || '</dc:date>' || char(10)
        || coalesce('<dc:format>' || nullif(type, '') || '</dc:format>'
                    || char(10), '')
        || '<dc:identifier>' || loc || '</dc:identifier>' || char(10)
        || coalesce(dublin_core.xml, '')
        || '</oai_dc:dc>' || char(10) || '</metadata>' || char(10))
        || '</record>' || char(10) AS xml
    FROM records JOIN header USING(us) JOIN dublin_core USING(us);

-- A page: at most 100 records of 256 KiB, or 100 sets, and one more, where the next
-- page begins.

CREATE TEMP TABLE page(id, xml TEXT, n INTEGER, bytes INTEGER);

INSERT INTO page
    SELECT us, xml, row_number() OVER in_order, sum(length(xml)) OVER in_order
    FROM (SELECT us, iif(verb = 'ListRecords',
                         (SELECT xml FROM record WHERE record.us = found.us),
                         (SELECT xml FROM header WHERE header.us = found.us))
                     AS xml
          FROM ask, (
              SELECT us FROM (
                  SELECT us FROM records
                  WHERE us BETWEEN (SELECT low FROM list)
                               AND (SELECT high FROM list WHERE spec = '')
                  ORDER BY us LIMIT 101)
              UNION SELECT us FROM (
                  SELECT us FROM tags
                  WHERE spec = (SELECT nullif(spec, '') FROM list)
                    AND us BETWEEN (SELECT low FROM list)
                               AND (SELECT high FROM list)
                  ORDER BY us LIMIT 101)
              UNION SELECT us FROM (
                  SELECT us FROM tags
                  WHERE spec = ''
                    AND us BETWEEN (SELECT low FROM list)
                               AND (SELECT high FROM list WHERE spec <> '')
                  ORDER BY us LIMIT 101)
              ORDER BY us LIMIT 101) AS found
          WHERE verb IN ('ListRecords', 'ListIdentifiers') AND
                NOT EXISTS(SELECT 1 FROM error))
    WINDOW in_order AS (ORDER BY us);

INSERT INTO page
    WITH RECURSIVE
        named(spec) AS (
            SELECT (SELECT min(spec) FROM tags
                    WHERE spec >= (SELECT spec FROM list) AND spec > '')
            UNION ALL
            SELECT (SELECT min(spec) FROM tags WHERE tags.spec > named.spec)
            FROM named WHERE spec IS NOT NULL LIMIT 101)
    SELECT named.spec, '<set><setSpec>' || named.spec || '</setSpec><setName>'
               || (SELECT tag FROM tags WHERE tags.spec = named.spec LIMIT 1)
               || '</setName></set>' || char(10), row_number() OVER (), 0
    FROM named, ask
    WHERE named.spec IS NOT NULL AND verb = 'ListSets' AND
          NOT EXISTS(SELECT 1 FROM error);

INSERT INTO page
    SELECT us, xml, 1, 0 FROM record
    WHERE us = (SELECT us FROM ask, records
                WHERE loc = identifier AND verb = 'GetRecord');

CREATE TEMP TABLE next AS
    SELECT min(id) AS id, min(n) - 1 AS n FROM page
    WHERE n > 1 AND (n > 100 OR bytes > 262144);
DELETE FROM page WHERE id >= (SELECT id FROM next);

-- Errors that the records show

INSERT INTO error(code, text)
    SELECT 'idDoesNotExist', 'there is no record of ' || identifier FROM ask
    WHERE identifier IS NOT NULL AND
          identifier NOT IN (SELECT loc FROM records);
INSERT INTO error(code, text)
    SELECT 'noMetadataFormats', identifier || ' is deleted'
    FROM ask JOIN records ON loc = identifier
    WHERE is_deleted AND verb = 'ListMetadataFormats';
INSERT INTO error(code, text)
    SELECT 'noSetHierarchy', 'no record has a tag' FROM ask, list
    WHERE (verb = 'ListSets' OR list.spec <> '') AND
          NOT EXISTS(SELECT 1 FROM tags WHERE spec > '');
INSERT INTO error(code, text)
    SELECT 'noRecordsMatch', 'no record is in this list' FROM ask
    WHERE verb IN ('ListRecords', 'ListIdentifiers') AND token IS NULL AND
          NOT EXISTS(SELECT 1 FROM page);
DELETE FROM error WHERE id > (SELECT min(id) FROM error);

-- The answer

SELECT '<?xml version="1.0" encoding="UTF-8"?>' || char(10)
    || '<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"'
    || ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    || ' xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/'
    || ' http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd">' || char(10)
    || '<responseDate>'
    || strftime('%Y-%m-%dT%H:%M:%SZ', us / 1000000, 'unixepoch')
    || '</responseDate>' || char(10) || '<request'
    || iif(code IN ('badVerb', 'badArgument'), '',
           (SELECT group_concat(' ' || name || '="' || value || '"', '')
            FROM given))
    || '>' || url || '/sets/' || name || '/oai</request>' || char(10)
    || coalesce('<error code="' || code || '">' || text || '</error>',
                (SELECT '<' || verb || '>' FROM ask)) || char(10)
FROM facts LEFT JOIN error WHERE code IS NOT 'later';

SELECT '<repositoryName>'
    || replace(replace(coalesce(nullif(title, ''), name), '&', '&amp;'), '<',
               '&lt;')
    || '</repositoryName>' || char(10)
    || '<baseURL>' || url || '/sets/' || name || '/oai</baseURL>' || char(10)
    || '<protocolVersion>2.0</protocolVersion>' || char(10)
    || '<adminEmail>postmaster@' || host
    || iif(instr(host, '.'), '', '.localdomain') || '</adminEmail>' || char(10)
    || '<earliestDatestamp>'
    || strftime('%Y-%m-%dT%H:%M:%SZ',
                coalesce((SELECT min(us) FROM records), created_us) / 1000000,
                'unixepoch')
    || '</earliestDatestamp>' || char(10) || '<deletedRecord>'
    || iif(is_persistent, 'persistent', 'transient')
    || '</deletedRecord>' || char(10)
    || '<granularity>YYYY-MM-DDThh:mm:ssZ</granularity>' || char(10)
FROM (SELECT *, substr(rest, 1, iif(rest GLOB '[[]*', instr(rest, ']'),
                                    instr(replace(rest, '/', ':') || ':', ':')
                                    - 1)) AS host
      FROM (SELECT *, substr(url, instr(url, '://') + 3) AS rest FROM facts)),
     ask
WHERE verb = 'Identify' AND NOT EXISTS(SELECT 1 FROM error);

SELECT '<metadataFormat>' || char(10)
    || '<metadataPrefix>oai_dc</metadataPrefix>' || char(10)
    || '<schema>http://www.openarchives.org/OAI/2.0/oai_dc.xsd</schema>'
    || char(10) || '<metadataNamespace>'
    || 'http://www.openarchives.org/OAI/2.0/oai_dc/</metadataNamespace>'
    || char(10) || '</metadataFormat>' || char(10)
FROM ask
WHERE verb = 'ListMetadataFormats' AND NOT EXISTS(SELECT 1 FROM error);

SELECT xml FROM page WHERE NOT EXISTS(SELECT 1 FROM error) ORDER BY n;

SELECT '<resumptionToken cursor="' || list.n || '"'
    || iif(next.id IS NULL, ' completeListSize="'
               || (list.n + (SELECT count(*) FROM page)) || '"/>',
           '>' || format('%s/%s/%d/%d/%d/%d/%d/%s', epoch, verb,
                         iif(verb = 'ListSets', low, next.id), high,
                         list.n + next.n, as_of_us, list.began,
                         iif(verb = 'ListSets', next.id, list.spec))
           || '</resumptionToken>') || char(10)
FROM list, next, ask, facts
WHERE verb LIKE 'List%s' AND (next.id IS NOT NULL OR list.n > 0) AND
      NOT EXISTS(SELECT 1 FROM error);

SELECT iif(NOT EXISTS(SELECT 1 FROM error),
           '</' || verb || '>' || char(10), '')
    || '</OAI-PMH>' || char(10)
FROM ask WHERE NOT EXISTS(SELECT 1 FROM error WHERE code = 'later');

COMMIT;
