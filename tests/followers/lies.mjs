/**
 * Reads the vectors of tests/lies with tidings.js, one after the other:
 *
 *     node lies.mjs URL DIRECTORY
 *
 * URL: of a source that has a set at NAME/sets/news for each vector. Prints a line of JSON for each:
 * its `name`, the `seqs` that came, and how it ended: `code`, `fault`, `message` and `evidence` of the
 * error, or the `trouble` that made it wait.
 */
import { readdirSync, readFileSync } from 'node:fs';

import { checkCheckpoint, follow, isIncluded, readProof } from '../../web/tidings.js';

const [url, directory] = process.argv.slice(2);

function textOf(text) {
    return Array.isArray(text) ? text.map(line => `${line}\n`).join('') : text;
}

async function readSource(name, reader, options, last, outcome) {
    const set = `${url}/${name}/sets/news`, key = `tidings:${set}`, waits = new AbortController();
    const store = new Map(reader.kept ? [[`${key} checkpoint`, textOf(reader.kept)]] : []);
    if (reader.digest)
        store.set(key, reader.position).set(`${key} digest`, `${reader.position} ${reader.digest}`);
    const onState = ({ error }) => {
        if (!error || outcome.trouble)
            return;
        outcome.trouble = error.message;
        waits.abort(new Error('it waits'));
    };
    const all = { ...options, position: reader.position, store, signal: waits.signal, onState, onCheckpoint() {} };
    for await (const { seq } of follow(set, all)) {
        outcome.seqs.push(seq);
        if (seq === last)
            break;
    }
}

async function readFile({ file, digest, seq }, options) {
    const { index, hashes, checkpoint } = readProof(textOf(file));
    await checkCheckpoint(checkpoint, options);
    const bytes = Buffer.from(digest.split(':')[1], 'hex');
    if (index !== seq - 1 || !await isIncluded(bytes, index, checkpoint, hashes))
        throw Object.assign(new Error('the entry is not in the tree'), { fault: 'proof' });
}

for (const name of readdirSync(directory).filter(name => name.endsWith('.json'))) {
    const kind = JSON.parse(readFileSync(`${directory}/${name}`));
    for (const vector of kind.vectors.filter(vector => !vector.not?.js)) {
        const reader = { ...kind.reader, ...vector.reader }, outcome = { name: vector.name, seqs: [] };
        const options = { verifierKey: textOf(reader.key ?? undefined), witnesses: textOf(reader.witnesses),
            requireWitnesses: reader.require };
        try {
            await (vector.file ? readFile(vector, options)
                : readSource(vector.name, reader, options, vector.last ?? kind.last, outcome));
        } catch (error) {
            const { code, fault, message, evidence } = error;
            Object.assign(outcome, { code: error instanceof TypeError ? 'usage' : code, fault, message, evidence });
        }
        console.log(JSON.stringify(outcome));
    }
}
