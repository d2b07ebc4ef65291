/**
 * console-sign-in.js - signs a user in with the identity provider of the broker: OpenID Connect,
 * authorization code with PKCE (RFC 7636), as a public client. The broker names the provider in
 * the page; it takes no part, and gets the token as it gets any other (POST /session).
 *
 * The page leaves for the provider, so what proves its return (state, verifier, nonce) waits in the
 * sessionStorage of the tab, and goes with its first use. Tokens are never stored: one that renews the
 * session stays in a variable of this page.
 */

import { announce, ask, Refusal, root } from './console-parts.js';

const KEPT = 'tidings-sign-in';

/** Does not renew the session any more. */
export function forgetProvider() {
    clearTimeout(renewLater.timer);
}

/** At most so long before its end a session is renewed, and at least after so long, in milliseconds. */
const RENEW_MS = 60_000;
const RENEW_LEAST_MS = 1000;

/** How long a provider may take to answer, in milliseconds. */
const PATIENCE_MS = 15_000;

/** The longest time of setTimeout. */
const TIMER_MS = 2 ** 31 - 1;

/** { issuer, client, scope } of the identity provider; undefined: nobody signs in with one. */
export const provider = (() => {
    const read = name => document.querySelector(`meta[name=openid-${name}]`)?.content;
    return read('client') && { issuer: read('issuer'), client: read('client'), scope: read('scope') };
})();

function base64url(bytes) {
    return btoa(String.fromCharCode(...new Uint8Array(bytes)))
        .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

function random() {
    return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

/** What the provider says of itself (OpenID Connect Discovery 1.0). */
async function discover() {
    const { issuer } = provider;
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
    const found = await (await askProvider(url)).json();
    if (found.issuer !== issuer)
        throw new Error(`${url} is about ${found.issuer}, not about ${issuer}.`);
    if (new URL(found.token_endpoint).origin !== new URL(issuer).origin)
        throw new Error(`The identity provider gives tokens at ${found.token_endpoint},`
            + ' which is another server than its own: the console asks no other.');
    return found;
}

async function askProvider(url, form) {
    let answer;
    try {
        answer = await fetch(url, {
            method: form ? 'POST' : 'GET', credentials: 'omit', cache: 'no-store',
            signal: AbortSignal.timeout(PATIENCE_MS),
            ...form && { body: new URLSearchParams(form) },
        });
    } catch {
        throw new Error(`The identity provider does not answer this page at ${url}:`
            + ` it is away or silent, or does not allow ${root.origin} (CORS).`);
    }
    if (!answer.ok) {
        const { error, error_description: why } = await answer.json().catch(() => ({}));
        throw new Error(`The identity provider refuses: ${why ?? error ?? answer.status}.`);
    }
    return answer;
}

/** Leaves the page for the provider's. */
export async function leaveForProvider() {
    if (!crypto.subtle)
        throw new Error('Over plain HTTP a browser cannot do this: use https.');
    const { authorization_endpoint: url } = await discover();
    const kept = { state: random(), verifier: random(), nonce: random(),
        hash: location.hash === '#/sign-in' ? '' : location.hash };
    const challenge = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(kept.verifier));
    const to = new URL(url);
    for (const [name, value] of Object.entries({
        response_type: 'code', client_id: provider.client, redirect_uri: root.href, scope: provider.scope,
        state: kept.state, nonce: kept.nonce, code_challenge: base64url(challenge), code_challenge_method: 'S256',
    }))
        to.searchParams.set(name, value);
    sessionStorage.setItem(KEPT, JSON.stringify(kept));
    location.assign(to);
}

/** The claims of a JSON Web Token, which the broker verifies; undefined: this is none. */
function claimsOf(text) {
    const parts = text?.split('.') ?? [];
    try {
        return parts.length === 3 ? JSON.parse(atob(parts[1].replaceAll('-', '+').replaceAll('_', '/'))) : undefined;
    } catch {
        return undefined;
    }
}

/**
 * Opens a session with tokens of the provider; without a nonce renews the one that the browser has, which
 * another tab may have ended: it stays ended. Its access token is meant for the broker; some
 * providers make those for themselves alone, and an ID token for who asks.
 */
async function openSession(tokens, nonce) {
    const texts = [tokens.access_token, tokens.id_token].filter(claimsOf);
    let refusal = new Error('The identity provider gave no JSON Web Token.');
    for (const text of texts) {
        if (text === tokens.id_token && nonce && claimsOf(text).nonce !== nonce)
            continue; // of another sign-in
        try {
            await ask(nonce ? 'session' : 'session?renew=yes', { method: 'POST', headers: { Authorization: `Bearer ${text}` } });
            renewLater(claimsOf(text), tokens.refresh_token);
            return;
        } catch (error) {
            if (!(error instanceof Refusal))
                throw error;
            // One that the broker knows and that has no right says more than one that it does not know.
            if (!(refusal instanceof Refusal) || error.status === 403)
                refusal = error;
        }
    }
    throw refusal.status !== 401 ? refusal : new Error('The identity provider knows you, but the broker does not accept'
        + ' its token: the audience, the key or the time is another one. The log of the broker says which.');
}

/**
 * Opens the session anew before its token ends, if the provider gave what that needs. Where the
 * token says when it was made, the clock of this machine does not matter.
 */
function renewLater({ exp, iat }, refreshToken) {
    if (!refreshToken)
        return;
    const left = (exp - (iat ?? Date.now() / 1000)) * 1000;
    const renew = async () => {
        const { token_endpoint: url } = await discover();
        const form = { grant_type: 'refresh_token', refresh_token: refreshToken, client_id: provider.client };
        const tokens = await (await askProvider(url, form)).json();
        await openSession({ refresh_token: refreshToken, ...tokens });
    };
    clearTimeout(renewLater.timer);
    renewLater.timer = setTimeout(() => renew().catch(error => announce(error.message, 'bad')),
        Math.min(TIMER_MS, Math.max(RENEW_LEAST_MS, left - Math.min(RENEW_MS, left / 2))));
}

/**
 * If the user comes back from the provider: opens the session, and goes where the user was. Fails
 * with words for the user. Returns true if somebody has come back.
 */
export async function returnFromProvider() {
    const answer = new URLSearchParams(location.search);
    if (!provider || !answer.has('state'))
        return false;
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? '{}');
    sessionStorage.removeItem(KEPT);
    // A code is good once: no reload and no history has it.
    history.replaceState(null, '', `${location.pathname}${kept.hash ?? ''}`);
    if (!kept.state || answer.get('state') !== kept.state)
        throw new Error('This is no answer to a request of this tab: sign in again.');
    if (answer.has('iss') && answer.get('iss') !== provider.issuer)
        throw new Error(`${answer.get('iss')} answers, not ${provider.issuer}.`);
    if (answer.has('error'))
        throw new Error(`The identity provider refuses: ${answer.get('error_description') ?? answer.get('error')}.`);
    const { token_endpoint: url } = await discover();
    const form = {
        grant_type: 'authorization_code', code: answer.get('code') ?? '', redirect_uri: root.href,
        client_id: provider.client, code_verifier: kept.verifier,
    };
    await openSession(await (await askProvider(url, form)).json(), kept.nonce);
    return true;
}
