import { setTimeout as wait } from 'node:timers/promises';

/** Waits until `condition` gives something truthy, and returns it. Fails, naming what was waited for, at the deadline. */
export async function waitFor<T>(
  what: string,
  condition: () => Promise<T> | T,
  deadlineMs = 30_000,
): Promise<NonNullable<T>> {
  const endMs = performance.now() + deadlineMs;
  for (;;) {
    const askedAtMs = performance.now();
    const value = await condition();
    if (value) return value;
    if (performance.now() > endMs) throw new Error(`Waited ${deadlineMs} ms in vain for ${what}`);
    // A condition that is expensive to ask must not take the machine from what is waited for.
    await wait(Math.max(25, 2 * (performance.now() - askedAtMs)));
  }
}
