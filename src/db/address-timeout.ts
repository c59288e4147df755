/**
 * A host may have several addresses. Node tries them one after the other, and ends each attempt but
 * the last after 250 ms, so that an address with a longer way is never reached. This gives each
 * attempt more time. All files that connect to other machines import this one.
 */

import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';

/** Milliseconds that each address of a host has to answer, if there is another one behind it. */
const attemptTimeoutMs = 2_000;

setDefaultAutoSelectFamilyAttemptTimeout(attemptTimeoutMs);
