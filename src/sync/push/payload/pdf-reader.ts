/** A process that reads pdf documents: one that is hostile costs this process, and not the worker that asked for it. */
import { isMainThread, Worker } from 'node:worker_threads';
import { printableProblem } from './printable.ts';

/** How often it is looked whether the worker is still there. */
const lookMs = 1_000;

if (isMainThread) {
  // Signals to the whole group of processes are for the worker, which waits for what is under way.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  // Reading may never end, and nothing else runs in this thread meanwhile.
  new Worker(import.meta.filename, { execArgv: [] }).unref();
  process.on('message', async (content: string) => {
    process.send?.(await printableProblem(content));
  });
} else {
  const worker = process.ppid;
  setInterval(() => {
    if (process.ppid !== worker) process.kill(process.pid, 'SIGKILL');
  }, lookMs);
}
