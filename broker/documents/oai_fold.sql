-- What a request to /sets/NAME/oai needs before it brings the records up to date.

PRAGMA synchronous = NORMAL;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -4096;

-- The last change of each resource, by its event time. Texts are escaped as in
-- XML.
CREATE TABLE IF NOT EXISTS records(
    us INTEGER PRIMARY KEY, loc TEXT NOT NULL UNIQUE,
    is_deleted INTEGER NOT NULL, date TEXT, title TEXT, author TEXT,
    summary TEXT, data TEXT, type TEXT, tags TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tags(
    spec TEXT NOT NULL, us INTEGER NOT NULL, tag TEXT NOT NULL,
    PRIMARY KEY(spec, us)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tags_of_records ON tags(us);

-- One row: the log that they come from, and how far.
CREATE TABLE IF NOT EXISTS state(
    id INTEGER PRIMARY KEY, epoch TEXT NOT NULL, seq INTEGER NOT NULL,
    began INTEGER NOT NULL);

-- The request: its arguments, escaped as in XML, and what the broker knows.
CREATE TEMP TABLE given(name TEXT NOT NULL, value TEXT NOT NULL);
CREATE TEMP TABLE facts(
    url TEXT, name TEXT, title TEXT, epoch TEXT, seq INTEGER, began INTEGER,
    earliest INTEGER, us INTEGER, created_us INTEGER, is_persistent INTEGER);

-- A resource has one record: that of its last change.
CREATE TEMP TRIGGER one_record BEFORE INSERT ON main.records BEGIN
    DELETE FROM records WHERE loc = new.loc;
END;
CREATE TEMP TRIGGER no_tags AFTER DELETE ON main.records BEGIN
    DELETE FROM tags WHERE us = old.us;
END;

-- The setSpec of a tag is the tag, or "~" and its bytes in hexadecimal digits
-- if it has other characters than letters, digits, ".", "_" and "-". Nobody
-- knows the sets of a deleted resource without tags: it is in each, as "".
CREATE TEMP TRIGGER their_tags AFTER INSERT ON main.records BEGIN
    INSERT OR IGNORE INTO tags(spec, us, tag)
        SELECT iif(plain GLOB '*[^-A-Za-z0-9._]*', '~' || hex(plain), plain),
               new.us, tag
        FROM (SELECT value AS tag,
                     replace(replace(replace(replace(value, '&lt;', '<'),
                     '&gt;', '>'), '&quot;', '"'), '&amp;', '&') AS plain
              FROM json_each('["' || replace(replace(new.tags, '\', '\\'),
                                             ' ', '","') || '"]'))
        WHERE tag <> '' OR new.is_deleted;
END;
