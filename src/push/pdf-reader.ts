/**
 * A process that reads pdf documents for a worker. A hostile document can end this process, but not
 * the worker.
 */
import { isMainThread, Worker } from 'node:worker_threads';
import { findPrintProblem } from './find-print-problem.ts';

/** Time between checks whether the worker still runs, in milliseconds. */
const parentCheckMs = 1_000;

if (isMainThread) {
  // Ignores signals to the process group: the worker handles them, and waits for its documents.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => undefined);
  // Another thread checks the worker, because reading a document may block this one forever.
  new Worker(import.meta.filename, { execArgv: [] }).unref();
  process.on('message', async (content: string) => {
    process.send?.(await findPrintProblem(content));
  });
} else {
  const worker = process.ppid;
  setInterval(() => {
    if (process.ppid !== worker) process.kill(process.pid, 'SIGKILL');
  }, parentCheckMs);
}
