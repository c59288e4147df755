/**
 * Returns a function that does work, at most `most` pieces of it at a time, in the order of the
 * calls. It returns the result of the work, or throws its error.
 */
export function limitConcurrency(most: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;

  return async (work) => {
    if (running === most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;

    try {
      return await work();
    } finally {
      // The place of this work goes to the one that has waited longest.
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}
