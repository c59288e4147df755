import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { CodedError, stopReason } from '../../../core/errors.ts';
import { programs } from '../../../core/installation.ts';

/** Bytes of a document. A payload holds 16 MB, which base64 makes of 12. */
const maxBytes = 12 * 1024 * 1024;
/** How long reading one may take, however busy the machine is. An ordinary document takes milliseconds. */
const deadlineMs = 30_000;
/** Memory for reading one, in MB, beside the document itself. A thread's limit would not do: to pass it can end the process. */
const memoryLimit = 256;
/** Documents that are read at the same time, of all clients. */
const maxReaders = 2;
/** How long a reader without work is kept: starting one takes a tenth of a second. */
const idleMs = 30_000;

let running = 0;
const waiting: (() => void)[] = [];
const idle = new Set<ChildProcess>();

/**
 * Returns why a document cannot be attached to an order, or null if it can (see `printableProblem`). It is read in a
 * process of its own with bounded memory and time: a document of some KB can be made so that reading it never ends.
 * @param content base64 without white space
 * @param stop ends the reading
 */
export async function documentProblem(content: string, stop: AbortSignal): Promise<string | null> {
  if (content.length > (maxBytes * 4) / 3 + 4) return `is larger than ${maxBytes / 1024 / 1024} MB`;
  if (running < maxReaders) running++;
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    return await readApart(content, stop);
  } finally {
    // The next one takes over the place.
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }
}

const tooCostly = 'is a pdf document that cannot be read: it needs more time or memory than a document may';

/** @throws CodedError what kept the reader from its work, if that was not the document: also that it was stopped */
async function readApart(content: string, stop: AbortSignal): Promise<string | null> {
  const [kept] = idle;
  if (kept !== undefined) {
    idle.delete(kept);
    const answer = await ask(kept, content, stop);
    // Documents before this one may have used up the memory of a kept reader: only a new one can blame the document.
    if ('problem' in answer) return answer.problem;
  }
  if (stop.aborted) throw stopReason(stop);
  const answer = await ask(startReader(), content, stop);
  if ('problem' in answer) return answer.problem;
  if (stop.aborted) throw stopReason(stop);
  if (answer.fault !== null) throw new CodedError('document_not_read', answer.fault);
  return tooCostly;
}

/** What a reader said; `fault` null: it gave no answer in time, or was ended for the memory it took. */
type Answer = { readonly problem: string | null } | { readonly fault: string | null };

async function ask(reader: ChildProcess, content: string, stop: AbortSignal): Promise<Answer> {
  reader.ref();
  reader.channel?.ref();
  const ended = new AbortController();
  const { signal } = ended;
  // Those that lose the race are ended by the signal.
  const read = once(reader, 'message', { signal }).then(
    ([problem]): Answer => ({ problem: problem as string | null }),
    (error: unknown): Answer => ({ fault: String(error) }),
  );
  const gone = once(reader, 'exit', { signal }).then(
    // V8 ends a process that way where its memory does not suffice.
    ([code, signal]): Answer => ({
      fault:
        signal === 'SIGABRT' || signal === 'SIGTRAP' ? null : `the reader of documents was ended: ${code ?? signal}`,
    }),
    (error: unknown): Answer => ({ fault: String(error) }),
  );
  const late = wait(deadlineMs, { fault: null }, { signal, ref: false }).catch(() => ({ fault: null }));
  reader.send(content, () => undefined);
  const stopped = once(stop, 'abort', { signal }).then(
    (): Answer => ({ fault: 'stopped' }),
    (error: unknown): Answer => ({ fault: String(error) }),
  );
  const answer = await Promise.race([read, gone, late, stopped]);
  ended.abort();
  if ('problem' in answer) keepForNext(reader);
  else reader.kill('SIGKILL');
  return answer;
}

function startReader(): ChildProcess {
  const reader = fork(programs.pdfReader, {
    execArgv: [`--max-old-space-size=${memoryLimit}`],
    // It needs nothing of what this process knows.
    env: {},
    stdio: 'ignore',
  });
  reader.on('exit', () => idle.delete(reader));
  // Who waits for an answer hears of it too; without a listener an idle reader that breaks would end the process.
  reader.on('error', () => idle.delete(reader));
  return reader;
}

function keepForNext(reader: ChildProcess): void {
  // It has ended meanwhile.
  if (!reader.connected) return;
  idle.add(reader);
  // It must not keep the process alive.
  reader.unref();
  reader.channel?.unref();
  setTimeout(() => {
    if (idle.delete(reader)) reader.kill('SIGKILL');
  }, idleMs).unref();
}
