/**
 * The program of the processes that check payloads for a worker (check-process.ts). A hostile
 * payload or document can end such a process, but not the worker.
 */

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { describeError } from '../core/errors.ts';
import type { ServiceLists } from '../pull/sql/service-lists.ts';
import { findProblemsHere } from './check-payload.ts';
import type { CheckMessage, CheckTask, FoundProblems } from './check-process.ts';
import { findPrintProblem } from './find-print-problem.ts';
import { type CodeLists, PayloadError } from './kind.ts';
import { nameKinds } from './kinds/registry.ts';
import { checkRowsHere } from './new-rows.ts';
import { type CheckTools, readHere } from './payload.ts';

/** Time between two looks at the worker and at the CPU time, in milliseconds. */
const watchMs = 1_000;
/**
 * Maximum CPU time between two messages, in microseconds, which other processes do not make longer.
 * Checking 16 MB takes less than a second, and reading an ordinary document a few milliseconds.
 */
const maxCpuUs = 10_000_000;

/** The CPU time in microseconds when the last message was sent, or a task arrived. */
const seenUs = new Float64Array(new SharedArrayBuffer(8));

function noteTime(): void {
  const { user, system } = process.cpuUsage();
  seenUs[0] = user + system;
}

function say(message: CheckMessage): void {
  noteTime();
  process.send?.(message);
}

/** Asks the worker for the lists of the service. They are asked for one after the other. */
async function askForLists(how: keyof CodeLists): Promise<ServiceLists | null> {
  const answered = once(process, 'message') as Promise<[{ readonly lists: ServiceLists | null }]>;
  say({ lists: how });
  const [{ lists }] = await answered;
  return lists;
}

/**
 * The lists of the service, as a task knows them. The worker sends them once for a
 * task, and again when they were refreshed.
 */
function makeCodes(): CodeLists {
  let kept: Promise<ServiceLists | null> | undefined;
  const refresh = () => {
    kept = askForLists('refresh');
    return kept;
  };

  return {
    read: () => {
      kept ??= askForLists('read');
      return kept;
    },
    refresh,
  };
}

/** Reads a document, and says which one before it does. */
const readDocument: CheckTools['readDocument'] = async (path, content) => {
  say({ reading: path });
  const problem = await findPrintProblem(content);
  say({ reading: null });
  return problem === null ? [] : [`${path}: ${problem}`];
};

async function perform(task: CheckTask): Promise<object> {
  if (task.do === 'read document')
    return { problems: await readDocument(task.path, task.content) } satisfies FoundProblems;

  const { operations } = task;
  // The worker ends this process if the task is stopped.
  const { signal } = new AbortController();
  const tools = { codes: makeCodes(), operations, owner: '', signal, readDocument };
  if (task.do === 'check rows') return checkRowsHere(task.body, tools);

  const kind = nameKinds(operations).get(task.kind);
  if (kind === undefined) throw new TypeError(`there is no kind ${task.kind}`);

  if (task.do === 'find problems') return { problems: await findProblemsHere(kind, task, tools) };

  const { payload, reference = '', checks } = task;
  return { read: JSON.stringify(await readHere(kind, { payload, reference }, tools, checks)) };
}

async function performTask(task: CheckTask): Promise<void> {
  try {
    say({ result: await perform(task) });
  } catch (error) {
    if (error instanceof PayloadError) say({ result: { problems: error.problems } });
    else say({ fault: describeError(error) });
  }
}

// Ignores signals to the process group: the worker handles them, and waits for its checks.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
// A thread watches, because reading a document may block this one forever.
new Worker(
  `const { workerData: seenUs } = require('node:worker_threads');
  setInterval(() => {
    if (process.ppid !== ${process.ppid}) process.kill(process.pid, 'SIGKILL');
    const { user, system } = process.cpuUsage();
    if (user + system - seenUs[0] > ${maxCpuUs}) process.kill(process.pid, 'SIGABRT');
  }, ${watchMs});`,
  { eval: true, execArgv: [], workerData: seenUs },
).unref();
process.on('message', (message: CheckTask | { readonly lists: ServiceLists | null }) => {
  noteTime();
  if ('do' in message) void performTask(message);
});
