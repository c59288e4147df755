import { withoutQuotes } from '../../core/quote.ts';

/**
 * Every field that a log line may have, and what it holds. Nothing else is written: a field that is not here is named,
 * and its value left out. No field holds a request, an answer, a row or a member of one.
 */
const logFields = {
  event: 'what happened; docs/operations.md lists them',
  client: 'client key',
  job: 'job name',
  run: 'number of the run: lease_token in sync.runs, with client and job',
  outbox: 'number of the outbox row',
  kind: 'kind of the outbox row',
  step: 'sent or looked up',
  became: 'status that a row taken over has now',
  code: 'stable code of a problem',
  error: 'the problem in our own words, those of others left out',
  stack: 'where in this program, for faults of its own',
  warnings: 'what a run noticed, in our own words',
  reason: 'why a run did not begin',
  dueAt: 'when the job is due next',
  durationMs: 'how long it took',
  delayMs: 'after how long it is tried again',
  retryMs: 'after how long the start is tried again',
  afterMs: 'how long was waited',
  missed: 'turns that went by',
  pages: 'pages read',
  fetched: 'resources read',
  created: 'rows inserted',
  updated: 'rows updated',
  removed: 'rows deleted',
  unchanged: 'resources that were as they are',
  stale: 'readings not applied because a newer one was there',
  quarantined: 'resources put into quarantine',
  rows: 'rows concerned',
  heldBack: 'lines of this kind left out since the last one',
  task: 'part of a sweep',
  queue: 'backend or name of the queue',
  set: 'schedulers that were set',
  removedSchedulers: 'schedulers that were taken away',
  lost: 'schedulers that had been there to be, and were not',
  clients: 'number of clients',
  version: 'version of this program',
  worker: 'host name and process id',
  cause: 'signal, or that the parent is gone',
  host: 'address listened on',
  port: 'port listened on',
  action: 'what an operator did on the page',
  from: 'address of whoever asked the admin server',
  endpoint: 'origin that traces are sent to',
} as const;

const known = new Set(Object.keys(logFields));

/** What of an object is logged. */
export function loggable(fields: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(fields).filter(([name]) => known.has(name));
  const unknown = Object.keys(fields).filter((name) => !known.has(name));
  const left = unknown.length === 0 ? {} : { leftOut: unknown };
  return { ...Object.fromEntries(entries.map(([name, value]) => [name, plain(value)])), ...left };
}

/** Texts without quotations; numbers, truth values and times as they are; lists of those. Anything deeper is left out. */
function plain(value: unknown): unknown {
  if (typeof value === 'string') return withoutQuotes(value);
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Date || value === null || typeof value !== 'object') return value;
  return '(left out)';
}
