/**
 * The program of the processes that check payloads for a worker (check-process.ts). A hostile
 * payload or document can end such a process, but not the worker.
 */

import { Worker } from 'node:worker_threads';
import { describeError } from '../core/errors.ts';
import { performCheck, type ReadDocument } from './check-payload.ts';
import type { CheckMessage, CheckTask } from './check-process.ts';
import { findPrintProblem } from './print-problem.ts';

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
const readDocument: ReadDocument = async (path, content) => {
  say({ reading: path });
  const problem = await findPrintProblem(content);
  say({ reading: null });
  return problem;
};

async function performTask(task: CheckTask): Promise<void> {
  try {
    const done = await performCheck(task, readDocument);
    // A message cannot hold numbers with more digits than JavaScript has.
    const result = 'read' in done ? { json: JSON.stringify(done.read) } : done;
    say({ result, lacks: task.known?.lacks === true });
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
