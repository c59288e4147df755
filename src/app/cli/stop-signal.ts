/**
 * Creates a signal that aborts on SIGTERM or SIGINT. A second SIGTERM or SIGINT ends the process at once. If the
 * process has a channel to its parent (as in the demo), the signal also aborts when the parent ends.
 * @param onStop called once, with the name of the signal or with "parent gone"
 */
export function createStopSignal(onStop?: (cause: string) => void): AbortSignal {
  const stop = new AbortController();
  const onSignal = (cause: string) => {
    if (stop.signal.aborted) process.exit(1);
    onStop?.(cause);
    stop.abort();
  };
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
  process.once('disconnect', () => {
    if (!stop.signal.aborted) onSignal('parent gone');
  });
  // The listener keeps the channel open. An open channel must not keep the process alive.
  process.channel?.unref();
  return stop.signal;
}
