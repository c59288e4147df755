/** A worker thread that reads pdf documents: one that is hostile costs this thread, and not the event loop of the worker. */
import { parentPort } from 'node:worker_threads';
import { printableProblem } from './printable.ts';

parentPort?.on('message', async (content: string) => {
  parentPort?.postMessage(await printableProblem(content));
});
