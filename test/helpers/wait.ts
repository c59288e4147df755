import { setTimeout as wait } from 'node:timers/promises';

/** Waits until `condition` gives something truthy, and returns it. Fails, naming what was waited for, at the deadline. */
export async function waitFor<T>(
  what: string,
  condition: () => Promise<T> | T,
  deadlineMs = 30_000,
): Promise<NonNullable<T>> {
  const endMs = performance.now() + deadlineMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (performance.now() > endMs) throw new Error(`Waited ${deadlineMs} ms in vain for ${what}`);
    await wait(25);
  }
}
