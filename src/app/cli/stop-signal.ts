/**
 * Aborted by SIGTERM or SIGINT; a second one ends the process at once. Also where the process was started with a channel
 * to its parent (as the demo does) and the parent is gone.
 */
export function stopSignal(onStop?: (cause: string) => void): AbortSignal {
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
  // A listener keeps the channel open; it must not keep the process alive.
  process.channel?.unref();
  return stop.signal;
}
