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
  if (running < maxThreads) running++;
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    return await readInThread(content);
  } finally {
    // The next one takes over the place.
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }
}

const tooCostly = 'is a pdf document that cannot be read: it needs more time or memory than a document may';

/** @throws what kept the thread from its work, if that was not the document */
async function readInThread(content: string): Promise<string | null> {
  const [kept] = idle;
  if (kept !== undefined) {
    idle.delete(kept);
    const answer = await ask(kept, content);
    // Documents before this one may have used up the memory of a kept thread: only a new one can blame the document.
    if ('problem' in answer) return answer.problem;
  }
  const answer = await ask(startThread(), content);
  if ('problem' in answer) return answer.problem;
  if (answer.error !== null && !isOutOfMemory(answer.error)) throw answer.error;
  return tooCostly;
}

const isOutOfMemory = (error: unknown) =>
  error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';

/** Has a document read; `error` null: there was no answer in time. */
async function ask(
  thread: Worker,
  content: string,
): Promise<{ readonly problem: string | null } | { readonly error: unknown }> {
  thread.ref();
  const ended = new AbortController();
  const { signal } = ended;
  // The one that loses the race is ended by the signal.
  const read = once(thread, 'message', { signal }).then(
    ([problem]) => ({ problem: problem as string | null }),
    (error: unknown) => ({ error }),
  );
  const late = wait(deadlineMs, { error: null }, { signal, ref: false }).catch(() => ({ error: null }));
  thread.postMessage(content);
  const answer = await Promise.race([read, late]);
  ended.abort();
  if ('problem' in answer) keepForNext(thread);
  else void thread.terminate();
  return answer;
}

function startThread(): Worker {
  const thread = new Worker(programs.pdfWorker, { resourceLimits, execArgv: [] });
  // Who waits for an answer hears of it too; without a listener an idle thread that breaks would end the process.
  thread.on('error', () => idle.delete(thread));
  return thread;
}

function keepForNext(thread: Worker): void {
  // It has ended meanwhile.
  if (thread.threadId === -1) return;
  idle.add(thread);
  // It must not keep the process alive.
  thread.unref();
  setTimeout(() => {
    if (idle.delete(thread)) void thread.terminate();
  }, idleMs).unref();
}
