import { setTimeout as wait } from 'node:timers/promises';

/**
 * Waits until `condition` returns a truthy value, and returns that value.
 * @param what the condition in words, for the error
 * @param deadlineMs guards against hanging only: a busy machine may be many times slower
 * @throws Error after `deadlineMs`
 */
export async function waitFor<T>(
  what: string,
  condition: () => Promise<T> | T,
  deadlineMs = 120_000,
): Promise<NonNullable<T>> {
  const endMs = performance.now() + deadlineMs;
  for (;;) {
    const checkedAtMs = performance.now();
    const value = await condition();
    if (value) return value;
    if (performance.now() > endMs) throw new Error(`Waited ${deadlineMs} ms in vain for ${what}`);
    // An expensive condition must not slow down the work that it waits for.
    await wait(Math.max(25, 2 * (performance.now() - checkedAtMs)));
  }
}
