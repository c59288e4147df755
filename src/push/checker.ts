/**
 * The program of the processes that check payloads for a worker (check-process.ts). A hostile
 * payload or document can end such a process, but not the worker.
 */

import { Worker } from 'node:worker_threads';
import { describeError } from '../core/errors.ts';
import type { CheckMessage, CheckTask, FoundProblems } from './check-process.ts';
import { findPrintProblem } from './find-print-problem.ts';
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

  const { operations, known } = task;
  if (task.do === 'check rows')
    return checkRowsHere(task.body, { operations, known: task.known, readDocument });

  const kind = nameKinds(operations).get(task.kind);
  if (kind === undefined) throw new TypeError(`there is no kind ${task.kind}`);

  const tools = known === null ? null : { operations, known, readDocument };
  const checked = await readHere(kind, task, tools);
  return 'problems' in checked
    ? { problems: checked.problems }
    : { read: JSON.stringify(checked.read) };
}

async function performTask(task: CheckTask): Promise<void> {
  try {
    const result = await perform(task);
    say({ result, lacks: 'known' in task && task.known?.lacks === true });
  } catch (error) {
    say({ fault: describeError(error) });
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
process.on('message', (task: CheckTask) => {
  noteTime();
  void performTask(task);
});
