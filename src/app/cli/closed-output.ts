const closing = new AbortController();

/** Aborts when nobody reads the standard output any more. Commands that only show something then end. */
export const outputClosed: AbortSignal = closing.signal;

/**
 * Keeps the process alive when the reader of its output ends first, as in `reconcile | head -1`. What a command does in
 * the database must not depend on who reads its lines. Other errors of the output still end the process.
 */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      if (stream === process.stdout) closing.abort();
    });
}
