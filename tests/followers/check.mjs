/**
 * Follows a set with the verifier key, as a program in Node does:
 *
 *     node check.mjs SET-URL OPTIONS [without]
 *
 * OPTIONS: JSON, those of follow(); `kept`, the last checkpoint; `last`, the seq of the last change.
 * Prints "SEQ" for each change, "checkpoint SIZE" or "unchecked: REASON" for each checkpoint, "trouble: REASON" where it waits, and at the end the error as JSON.
 * `without`: subtle, there is no WebCrypto; ed25519, it does not know Ed25519; warning, neither is
 * there onCheckpoint.
 */
import { CheckpointError, follow } from '../../web/tidings.js';

const [url, text, without] = process.argv.slice(2);
const { kept, last, ...options } = JSON.parse(text);
const store = new Map(kept ? [[`tidings:${url} checkpoint`, kept]] : []);
const say = line => process.stdout.write(`${line}\n`);

if (without === 'subtle')
    Object.defineProperty(globalThis, 'crypto', { value: {} });
if (without === 'ed25519' || without === 'warning')
    crypto.subtle.importKey = async () => {
        throw new DOMException('Unrecognized name', 'NotSupportedError');
    };
if (without !== 'warning')
    options.onCheckpoint = ({ size, unchecked, isSigned }) =>
        say(unchecked ? `${unchecked} ${isSigned}` : `checkpoint ${size}`);
options.onState = ({ error }) => error && say(`trouble: ${error.message}`);
console.warn = say;
try {
    for await (const change of follow(url, { position: '0', store, ...options })) {
        say(change.seq);
        if (change.seq === last)
            break;
    }
    say(JSON.stringify({ kept: store.get(`tidings:${url} checkpoint`) }));
} catch (error) {
    const { fault, evidence, code, message } = error;
    say(JSON.stringify({ fault, evidence, code, message, isOwn: error instanceof CheckpointError }));
}
