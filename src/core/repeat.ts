/**
 * Calls `work` now and then every `everyMs`, unless it is still running. `work` must not reject.
 */
export function repeat(
  everyMs: number,
  work: () => Promise<void>,
): { readonly close: () => Promise<void> } {
  let working: Promise<void> | undefined;

  const tick = () => {
    working ??= work().finally(() => {
      working = undefined;
    });
  };

  tick();
  const timer = setInterval(tick, everyMs);

  return {
    /** Ends the repetition. Waits for the work under way. */
    close: async () => {
      clearInterval(timer);
      await working;
    },
  };
}
