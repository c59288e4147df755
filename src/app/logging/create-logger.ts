import { trace } from '@opentelemetry/api';
import { pino } from 'pino';
import { pickLogFields } from './log-schema.ts';
import { errorFields, type Logger } from './logger.ts';

export interface LogOptions {
  readonly level: string;
  /** Formats lines for people instead of JSON; undefined: only if standard output is a terminal. */
  readonly pretty: boolean | undefined;
}

/** Creates the logger of a command. The formatter for people is loaded only if it is used. */
export async function openLogger({ level, pretty = process.stdout.isTTY }: LogOptions): Promise<Logger> {
  if (!pretty) return createLogger(level, pino.destination(1));
  const { default: pinoPretty } = await import('pino-pretty');
  return createLogger(level, pinoPretty({ colorize: wantsColours(), sync: true }));
}

/**
 * Creates a logger that writes one JSON line per event, with the fields that log-schema.ts knows.
 * @param destination standard output by default
 */
export function createLogger(level: string, destination: pino.DestinationStream = pino.destination(1)): Logger {
  const options: pino.LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    mixin: readSpanIds,
    formatters: {
      level: (label) => ({ level: label }),
    },
    // Every line passes here, also a line of a library, and a message that our code writes by mistake.
    hooks: {
      logMethod([fields], method) {
        method.call(this, toFields(fields));
      },
    },
  };
  return pino(options, destination);
}

/** Returns the ids of the current span, by the names that OpenTelemetry gives them in logs. Without an SDK there is none. */
function readSpanIds(): object {
  const span = trace.getActiveSpan()?.spanContext();
  return span === undefined ? {} : { trace_id: span.traceId, span_id: span.spanId };
}

/** Turns what pino would write as a message into fields. */
function toFields(given: unknown): Record<string, unknown> {
  if (given instanceof Error) return pickLogFields({ event: 'error', ...errorFields(given) });
  return typeof given === 'object' && given !== null ? pickLogFields(given as Record<string, unknown>) : {};
}

/** Returns whether standard output is a terminal whose user wants colours (NO_COLOR). */
const wantsColours = () => process.stdout.isTTY && process.stdout.hasColors();
