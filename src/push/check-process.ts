/**
 * The processes that check payloads (check-program.ts), and whose turn it is to use one.
 */

import { type ChildProcess, fork } from 'node:child_process';
import { on } from 'node:events';
import type { Operations } from '../../config/operations.ts';
import { CodedError, toStopError } from '../core/errors.ts';
import { programs } from '../core/installation.ts';
import type { CheckContext, FoundProblems, KnownCodes } from './kind.ts';

/**
 * Maximum time between two messages of a process, in milliseconds. It ends itself after 10 s of CPU
 * time, so this is for one that does nothing.
 */
const deadlineMs = 300_000;
/**
 * Maximum memory of a process, in MB, besides the bytes that it is given. A thread with a memory
 * limit is not enough: if it exceeds the limit, it can end the whole process.
 */
const memoryLimitMb = 384;
/** Maximum number of processes. Each owner has at most one of them. */
const maxProcesses = 2;
/**
 * Time that an idle process is kept, in milliseconds. Starting one takes some tenths of a second.
 */
const idleMs = 30_000;

/** What a process is asked to do. */
export type CheckTask = {
  readonly operations: Operations;
} & (
  | {
      readonly do: 'check payload';
      readonly kind: string;
      readonly payload: string;
      readonly reference: string | undefined;
      /** Null: it is only read with the schema of its kind. */
      readonly known: KnownCodes | null;
    }
  | { readonly do: 'check rows'; readonly body: Uint8Array; readonly known: KnownCodes }
);

/** What a process sends. */
export type CheckMessage =
  /** The path of the document that it reads now; null if it has read it. */
  | { readonly reading: string | null }
  | { readonly result: object; readonly lacks: boolean }
  | { readonly fault: string };

type TaskContext = Pick<CheckContext, 'owner' | 'signal'>;

const owners = new Set<string>();
const waiting: { readonly owner: string; readonly start: () => void }[] = [];
/** Idle processes, with the timer that ends each. */
const idle = new Map<ChildProcess, NodeJS.Timeout>();

/**
 * Has a task done in a separate process with bounded memory and time, because a hostile document of
 * some KB can keep its reader busy forever.
 * @param context whose turn it is, and what ends the task
 * @returns the result; problems only, if the task takes too much time or memory
 * @throws CodedError if it was stopped, or the process ended unexpectedly
 */
export async function runInProcess<T extends object>(
  task: CheckTask,
  context: TaskContext,
): Promise<T | FoundProblems> {
  await waitForTurn(context);
  try {
    const [kept] = idle.keys();
    let end = await converse(kept ?? startProcess(), task, context);
    // Earlier tasks may have filled the memory of a kept process, and somebody may have ended it.
    // Only a new one proves that this task is too much.
    if (kept !== undefined && 'lost' in end) end = await converse(startProcess(), task, context);

    if ('result' in end) {
      if (task.known !== null) task.known.lacks = end.lacks;
      return end.result as T;
    }
    if (end.isCostly) return { problems: [{ path: [], text: describeCost(end.reading) }] };
    throw new CodedError('payload_not_checked', end.lost);
  } finally {
    giveTurn(context.owner);
  }
}

const describeCost = (reading: string | null) =>
  reading === null
    ? 'payload: takes too much time or memory to be checked'
    : `${reading}: is a pdf document that cannot be read: it takes too much time or memory`;

/** Waits until an owner may have a process. */
async function waitForTurn({ owner, signal }: TaskContext): Promise<void> {
  if (signal.aborted) throw toStopError(signal);
  if (owners.size < maxProcesses && !owners.has(owner)) {
    owners.add(owner);
    return;
  }

  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const turn = { owner, start: resolve };
  const stop = () => {
    waiting.splice(waiting.indexOf(turn), 1);
    reject(toStopError(signal));
  };
  waiting.push(turn);
  signal.addEventListener('abort', stop, { once: true });
  await promise.finally(() => signal.removeEventListener('abort', stop));
}

/**
 * Gives the turn of an owner to the first waiting owner that has no turn. If no other owner waits,
 * the same owner gets it again.
 */
function giveTurn(owner: string): void {
  const findNext = () => waiting.findIndex((turn) => !owners.has(turn.owner));
  const other = findNext();
  owners.delete(owner);
  const place = other === -1 ? findNext() : other;
  const [next] = place === -1 ? [] : waiting.splice(place, 1);
  if (next === undefined) return;

  owners.add(next.owner);
  next.start();
}

/** The end of a task. `reading` is the document that the process was reading; null if none. */
type TaskEnd =
  | { readonly result: object; readonly lacks: boolean }
  | { readonly lost: string; readonly isCostly: boolean; readonly reading: string | null };

/** Has a process do a task. Afterwards, the process is kept or has ended. */
async function converse(
  checker: ChildProcess,
  task: CheckTask,
  context: TaskContext,
): Promise<TaskEnd> {
  clearTimeout(idle.get(checker));
  idle.delete(checker);
  checker.ref();
  checker.channel?.ref();

  try {
    const end = await exchangeMessages(checker, task, context);
    if ('result' in end) keepProcess(checker);
    else checker.kill('SIGKILL');
    return end;
  } catch (error) {
    checker.kill('SIGKILL');
    throw context.signal.aborted ? toStopError(context.signal) : error;
  }
}

async function exchangeMessages(
  checker: ChildProcess,
  task: CheckTask,
  context: TaskContext,
): Promise<TaskEnd> {
  const late = new AbortController();
  const signal = AbortSignal.any([context.signal, late.signal]);
  const messages = on(checker, 'message', { signal, close: ['exit'] });
  let timer = setTimeout(() => late.abort(), deadlineMs);
  let reading: string | null = null;
  // If the process has ended, its end is seen elsewhere.
  checker.send(task, () => undefined);
  try {
    for await (const [message] of messages as AsyncIterable<[CheckMessage]>) {
      clearTimeout(timer);
      if ('result' in message) return message;
      if ('fault' in message) return { lost: message.fault, isCostly: false, reading };

      reading = message.reading;
      timer = setTimeout(() => late.abort(), deadlineMs);
    }
  } catch (error) {
    if (!late.signal.aborted) throw error;
    return { lost: 'the process that checks payloads is stuck', isCostly: false, reading };
  } finally {
    clearTimeout(timer);
  }

  // V8 ends a process with these signals if its memory does not suffice, and the process itself if
  // it has used too much time.
  const { signalCode, exitCode } = checker;
  const isCostly = signalCode === 'SIGABRT' || signalCode === 'SIGTRAP';
  const lost = `the process that checks payloads ended: ${signalCode ?? exitCode}`;
  return { lost, isCostly, reading };
}

function startProcess(): ChildProcess {
  const checker = fork(programs.checker, {
    execArgv: [`--max-old-space-size=${memoryLimitMb}`],
    // It needs no variables, and must not see the secrets in ours.
    env: {},
    stdio: 'ignore',
    // Sends bytes and texts as they are. Writing 16 MB as JSON would take a tenth of a second.
    serialization: 'advanced',
  });

  checker.on('exit', () => idle.delete(checker));
  // Without this listener, an error of an idle process would end this one.
  checker.on('error', () => idle.delete(checker));

  return checker;
}

function keepProcess(checker: ChildProcess): void {
  // The process has ended since.
  if (!checker.connected) return;

  // It must not keep this process alive.
  checker.unref();
  checker.channel?.unref();
  const timer = setTimeout(() => {
    if (idle.delete(checker)) checker.kill('SIGKILL');
  }, idleMs);
  idle.set(checker, timer.unref());
}
