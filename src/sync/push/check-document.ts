import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { programs } from '../../core/installation.ts';

/** Bytes of a document. A payload holds 16 MB, which base64 makes of 12. */
const maxBytes = 12 * 1024 * 1024;
/** How long reading one may take, however busy the machine is. An ordinary document takes milliseconds. */
const deadlineMs = 30_000;
/** Memory of the thread, beside the document itself. */
const resourceLimits = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 4 };
/** Documents that are read at the same time, of all clients. */
const maxThreads = 2;
/** How long a thread without work is kept: starting one takes a tenth of a second. */
const idleMs = 30_000;

let running = 0;
const waiting: (() => void)[] = [];
const idle = new Set<Worker>();

/**
 * Returns why a document cannot be attached to an order, or null if it can (see `printableProblem`). It is read in a
 * thread of its own with bounded memory and time: a document of some KB can be made so that reading it never ends.
 * @param content base64 without white space
 */
export async function documentProblem(content: string): Promise<string | null> {
  if (content.length > (maxBytes * 4) / 3 + 4) return `is larger than ${maxBytes / 1024 / 1024} MB`;
  if (running >= maxThreads) await new Promise<void>((resolve) => waiting.push(resolve));
  running++;
  try {
    return await readInThread(content);
  } finally {
    running--;
    waiting.shift()?.();
  }
}

async function readInThread(content: string): Promise<string | null> {
  const [kept] = idle;
  if (kept !== undefined) idle.delete(kept);
  const thread = kept ?? startThread();
  const ended = new AbortController();
  const { signal } = ended;
  try {
    // Both reject if the thread ran out of memory, and when the other one has won.
    const read = once(thread, 'message', { signal }).then(
      ([problem]) => ({ problem: problem as string | null }),
      () => null,
    );
    const late = wait(deadlineMs, null, { signal, ref: false }).catch(() => null);
    thread.postMessage(content);
    const answer = await Promise.race([read, late]);
    if (answer !== null) {
      keepForNext(thread);
      return answer.problem;
    }
    await thread.terminate();
    return 'is a pdf document that cannot be read: it needs more time or memory than a document may';
  } finally {
    ended.abort();
  }
}

function startThread(): Worker {
  const thread = new Worker(programs.pdfWorker, { resourceLimits, execArgv: [] });
  // Who waits for an answer hears of it too; without a listener an idle thread that breaks would end the process.
  thread.on('error', () => idle.delete(thread));
  return thread;
}

function keepForNext(thread: Worker): void {
  idle.add(thread);
  // It must not keep the process alive.
  thread.unref();
  setTimeout(() => {
    if (idle.delete(thread)) void thread.terminate();
  }, idleMs).unref();
}
