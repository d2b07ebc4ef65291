/**
 * Follows sets as programs in Node do, all in one process:
 *
 *     node follow.mjs KIND:TOKEN=SET-URL...
 *
 * KIND is tidings (web/tidings.js), eventsource (the EventSource of npm), or polyfill (the
 * EventSource polyfill of npm, which sends TOKEN). Prints "SET-URL LOC" for each change, and
 * "SET-URL ended: REASON" when no further one can come.
 */
import { createRequire } from 'node:module';
import { follow } from '../../web/tidings.js';

const require = createRequire(import.meta.url); // finds packages by NODE_PATH
const { EventSource } = require('eventsource');
const { EventSourcePolyfill } = require('event-source-polyfill');

function say(url, what) {
    process.stdout.write(`${url} ${what}\n`);
}

function listen(source, url) {
    source.addEventListener('changes', event =>
        JSON.parse(event.data).changes.forEach(change => say(url, change.loc)));
    source.addEventListener('error', event => {
        if (source.readyState === 2)
            say(url, `ended: ${event.code ?? event.status}`);
    });
}

const KINDS = {
    async tidings(url) {
        try {
            for await (const change of follow(url, { position: '0' }))
                say(url, change.loc);
        } catch (error) {
            say(url, `ended: ${error.message}`);
        }
    },
    eventsource: url => listen(new EventSource(`${url}/stream?after=0`), url),
    polyfill(url, token) {
        const headers = { Authorization: `Bearer ${token}` };
        listen(new EventSourcePolyfill(`${url}/stream?after=0`, { headers }), url);
    },
};

for (const argument of process.argv.slice(2)) {
    const [, kind, token, url] = /^(\w+):(.*?)=(.*)$/.exec(argument);
    KINDS[kind](url, token);
}
