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
 * Every field that a log line may have, each under its meaning. If an SDK of OpenTelemetry is
 * loaded, the logger adds trace_id and span_id.
 */
const known: ReadonlySet<string> = new Set([
  // What happened.
  'event',
  // Client key.
  'client',
  // Job name.
  'job',
  // Key of the lease of a run; with client and job it finds the run in sync.runs (lease_key).
  'leaseKey',
  // Number of the outbox row.
  'outbox',
  // Kind of the outbox row.
  'kind',
  // What was done with the row: sent or looked up.
  'step',
  // Status of a row after it was taken over from a lost worker.
  'became',
  // Stable code of a problem.
  'code',
  // Operation of the service that failed, such as v3.orders.create.
  'operation',
  // HTTP status with which the service answered it.
  'httpStatus',
  // The problem in words of this program; quoted words of others are left out.
  'error',
  // Place in the code, if the fault is in this program.
  'stack',
  // Warnings of a run, in words of this program.
  'warnings',
  // Why a run did not begin.
  'reason',
  // When the job is due next.
  'dueAt',
  // Duration.
  'durationMs',
  // Time until the next try.
  'delayMs',
  // Time until the start is tried again.
  'retryMs',
  // Time that was waited.
  'afterMs',
  // Number of missed runs.
  'missed',
  // Pages read.
  'pages',
  // Resources read.
  'fetched',
  // Rows inserted.
  'created',
  // Rows updated.
  'updated',
  // Rows deleted.
  'removed',
  // Resources that were stored already as received.
  'unchanged',
  // Readings not written because a newer one is stored.
  'stale',
  // Resources put into quarantine.
  'quarantined',
  // Number of rows concerned.
  'rows',
  // Number of lines of this kind that were left out since the last one.
  'heldBack',
  // Part of a sweep; or traces, or metrics.
  'task',
  // Backend or name of the queue.
  'queue',
  // Schedulers that were set.
  'set',
  // Schedulers that were removed.
  'removedSchedulers',
  // Schedulers that the queue did not have, or that no longer fired.
  'missing',
  // Number of clients.
  'clients',
  // Version of this program.
  'version',
  // Host name and process id.
  'worker',
  // Why the worker stops (a signal, or the end of its parent process) or restarts (SIGHUP).
  'cause',
  // How long a restart left this process without a worker.
  'withoutWorkerMs',
  // What is wrong in the configuration, each with its name.
  'problems',
  // Address listened on.
  'host',
  // Port listened on.
  'port',
  // What an operator did on a page.
  'action',
  // Address from which a request to the admin server or the API came.
  'from',
  // Name of the token of a request to the API; never the token itself.
  'token',
  // HTTP method of a request to the API.
  'method',
  // Route of a request to the API, without its values.
  'route',
  // HTTP status of an answer of the API.
  'status',
  // Origin that traces or metrics are sent to.
  'endpoint',
]);

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
