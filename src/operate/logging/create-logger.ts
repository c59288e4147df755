import { trace } from '@opentelemetry/api';
import { pino } from 'pino';
import type { Config } from '../../../config/env.ts';
import { errorFields, type Logger } from '../../core/logger.ts';
import { removeQuotes, toVisible } from '../../core/quote.ts';

/**
 * Creates the logger of a command. Without LOG_PRETTY, lines are formatted for people only if
 * standard output is a terminal. The formatter is loaded only if it is used.
 */
export async function openLogger({
  LOG_LEVEL: level,
  LOG_PRETTY: pretty = process.stdout.isTTY,
}: Pick<Config, 'LOG_LEVEL' | 'LOG_PRETTY'>): Promise<Logger> {
  if (!pretty) return createLogger(level);
  const { default: pinoPretty } = await import('pino-pretty');
  return createLogger(
    level,
    pinoPretty({
      colorize: wantsColours(),
      sync: true,
      // One line for each event: its name, then its fields.
      messageFormat: '{event}',
      ignore: 'event',
      errorLikeObjectKeys: [],
      singleLine: true,
      translateTime: 'SYS:HH:MM:ss',
    }),
  );
}

/**
 * Creates a logger that writes one JSON line per event, with the fields that create-logger.ts
 * knows.
 */
export function createLogger(
  level: string,
  destination: pino.DestinationStream = pino.destination(1),
): Logger {
  const options: pino.LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    mixin: readSpanIds,
    formatters: {
      level: (label) => ({ level: label }),
    },
    // Every line passes here, also a line of a library, and a message that our code writes by
    // mistake.
    hooks: {
      logMethod([fields], method) {
        method.call(this, toFields(fields));
      },
    },
  };

  return pino(options, destination);
}

/**
 * Returns the ids of the current span, by the names that OpenTelemetry gives them in logs. Without
 * an SDK there is none.
 */
function readSpanIds(): object {
  const span = trace.getActiveSpan()?.spanContext();
  return span === undefined ? {} : { trace_id: span.traceId, span_id: span.spanId };
}

/** Turns what pino would write as a message into fields. */
function toFields(given: unknown): Record<string, unknown> {
  if (given instanceof Error) return pickLogFields({ event: 'error', ...errorFields(given) });
  return typeof given === 'object' && given !== null
    ? pickLogFields(given as Record<string, unknown>)
    : {};
}

/** Returns whether standard output is a terminal whose user wants colours (NO_COLOR). */
const wantsColours = () => process.stdout.isTTY && process.stdout.hasColors();

/**
 * Every field that a log line may have, and its meaning. If an SDK of OpenTelemetry is loaded, the
 * logger adds trace_id and span_id.
 */
const logFields = {
  event: 'what happened',
  client: 'client key',
  job: 'job name',
  leaseKey:
    'key of the lease of a run; with client and job it finds the run in sync.runs (lease_key)',
  outbox: 'number of the outbox row',
  kind: 'kind of the outbox row',
  step: 'what was done with the row: sent or looked up',
  became: 'status of a row after it was taken over from a lost worker',
  code: 'stable code of a problem',
  operation: 'operation of the service that failed, such as v3.orders.create',
  httpStatus: 'HTTP status with which the service answered it',
  error: 'the problem in words of this program; quoted words of others are left out',
  stack: 'place in the code, if the fault is in this program',
  warnings: 'warnings of a run, in words of this program',
  reason: 'why a run did not begin',
  dueAt: 'when the job is due next',
  durationMs: 'duration',
  delayMs: 'time until the next try',
  retryMs: 'time until the start is tried again',
  afterMs: 'time that was waited',
  missed: 'number of missed runs',
  pages: 'pages read',
  fetched: 'resources read',
  created: 'rows inserted',
  updated: 'rows updated',
  removed: 'rows deleted',
  unchanged: 'resources that were stored already as received',
  stale: 'readings not written because a newer one is stored',
  quarantined: 'resources put into quarantine',
  rows: 'number of rows concerned',
  heldBack: 'number of lines of this kind that were left out since the last one',
  task: 'part of a sweep; or traces, or metrics',
  queue: 'backend or name of the queue',
  set: 'schedulers that were set',
  removedSchedulers: 'schedulers that were removed',
  lost: 'schedulers that were missing from the queue',
  clients: 'number of clients',
  version: 'version of this program',
  worker: 'host name and process id',
  cause: 'why the worker stops (a signal, or the end of its parent process) or restarts (SIGHUP)',
  withoutWorkerMs: 'how long a restart left this process without a worker',
  problems: 'what is wrong in the configuration, each with its name',
  host: 'address listened on',
  port: 'port listened on',
  action: 'what an operator did on a page',
  from: 'address from which a request to the admin server or the API came',
  token: 'name of the token of a request to the API; never the token itself',
  method: 'HTTP method of a request to the API',
  route: 'route of a request to the API, without its values',
  status: 'HTTP status of an answer of the API',
  endpoint: 'origin that traces or metrics are sent to',
} as const;

const known = new Set(Object.keys(logFields));

/**
 * Returns the fields of an object that may be logged. The names of all others are listed in
 * `leftOut`.
 */
export function pickLogFields(fields: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(fields).filter(([name]) => known.has(name));
  const unknown = Object.keys(fields).filter((name) => !known.has(name));
  const leftOut = unknown.length === 0 ? {} : { leftOut: unknown };

  return {
    ...Object.fromEntries(entries.map(([name, value]) => [name, toLoggableValue(value)])),
    ...leftOut,
  };
}

/**
 * Returns a value as it may be logged: texts without quotations and hidden characters, and lists.
 * Objects are left out, except dates.
 */
function toLoggableValue(value: unknown): unknown {
  if (typeof value === 'string') return toVisible(removeQuotes(value));
  if (Array.isArray(value)) return value.map(toLoggableValue);
  if (value instanceof Date || value === null || typeof value !== 'object') return value;
  return '(left out)';
}
