import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { CodedError, toStopError } from '../core/errors.ts';
import { programs } from '../core/installation.ts';

/**
 * Maximum size of a document, in bytes. Base64 makes 16 MB of 12 MB, and a payload has at most 16
 * MB.
 */
const maxBytes = 12 * 1024 * 1024;
/**
 * Maximum time to read a document, in milliseconds. An ordinary document takes a few milliseconds.
 */
const deadlineMs = 30_000;
/**
 * Maximum memory of a reader process, in MB, besides the document. A thread with a memory limit is
 * not enough: if it exceeds the limit, it can end the whole process.
 */
const memoryLimitMb = 256;
/** Maximum number of documents that are read at the same time, for all clients together. */
const maxReaders = 2;
/**
 * Time that an idle reader process is kept, in milliseconds. Starting one takes a tenth of a
 * second.
 */
const idleMs = 30_000;

let running = 0;
const waiting: (() => void)[] = [];
const idle = new Set<ChildProcess>();

/**
 * Returns why a document cannot be attached to an order, or null if it can (see
 * `findPrintProblem`). Reads it in a separate process with bounded memory and time, because a
 * hostile document of some KB can keep its reader busy forever.
 * @param content base64 without white space
 * @param stop ends the reading
 * @throws CodedError if it was stopped, or the reader process ended unexpectedly
 */
export async function findDocumentProblem(
  content: string,
  stop: AbortSignal,
): Promise<string | null> {
  if (content.length > (maxBytes * 4) / 3 + 4) return `is larger than ${maxBytes / 1024 / 1024} MB`;
  if (running < maxReaders) running++;
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    return await readInProcess(content, stop);
  } finally {
    // Hands the place to the next document that waits.
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }
}

const tooCostly = 'is a pdf document that cannot be read: it takes too much time or memory';

/**
 * Reads a document in a kept or a new process.
 * @throws CodedError if it was stopped, or the process failed
 */
async function readInProcess(content: string, stop: AbortSignal): Promise<string | null> {
  const [kept] = idle;
  if (kept !== undefined) {
    idle.delete(kept);
    const answer = await askReader(kept, content, stop);
    // Earlier documents may have filled the memory of a kept reader. Only a new reader proves that
    // the document is bad.
    if ('problem' in answer) return answer.problem;
  }
  if (stop.aborted) throw toStopError(stop);
  const answer = await askReader(startReader(), content, stop);
  if ('problem' in answer) return answer.problem;
  if (stop.aborted) throw toStopError(stop);
  if (answer.fault !== null) throw new CodedError('document_not_read', answer.fault);
  return tooCostly;
}

/** The answer of a reader; `fault` is null if it took too much time or memory. */
type ReaderAnswer = { readonly problem: string | null } | { readonly fault: string | null };

async function askReader(
  reader: ChildProcess,
  content: string,
  stop: AbortSignal,
): Promise<ReaderAnswer> {
  reader.ref();
  reader.channel?.ref();
  const ended = new AbortController();
  const { signal } = ended;
  // V8 ends a process with these signals if its memory does not suffice.
  const describeExit = ([code, by]: unknown[]) =>
    by === 'SIGABRT' || by === 'SIGTRAP'
      ? null
      : `the process that reads documents ended: ${code ?? by}`;
  const first = Promise.race<ReaderAnswer>([
    once(reader, 'message', { signal }).then(([problem]) => ({
      problem: problem as string | null,
    })),
    once(reader, 'exit', { signal }).then((exit) => ({ fault: describeExit(exit) })),
    once(stop, 'abort', { signal }).then(() => ({ fault: 'stopped' })),
    wait(deadlineMs, { fault: null }, { signal, ref: false }),
  ]);
  reader.send(content, () => undefined);
  const answer = await first.catch((error: unknown) => ({ fault: String(error) }));
  // Ends those that lost the race.
  ended.abort();
  if ('problem' in answer) keepReader(reader);
  else reader.kill('SIGKILL');
  return answer;
}

function startReader(): ChildProcess {
  const reader = fork(programs.pdfReader, {
    execArgv: [`--max-old-space-size=${memoryLimitMb}`],
    // The reader needs no variables, and must not see the secrets in ours.
    env: {},
    stdio: 'ignore',
  });
  reader.on('exit', () => idle.delete(reader));
  // Without this listener, an error of an idle reader would end this process.
  reader.on('error', () => idle.delete(reader));
  return reader;
}

function keepReader(reader: ChildProcess): void {
  // The reader has ended since.
  if (!reader.connected) return;
  idle.add(reader);
  // The reader must not keep this process alive.
  reader.unref();
  reader.channel?.unref();
  setTimeout(() => {
    if (idle.delete(reader)) reader.kill('SIGKILL');
  }, idleMs).unref();
}
