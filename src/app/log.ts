import { pino } from 'pino';
import pinoPretty from 'pino-pretty';
import { describeError } from '../core/errors.ts';
import { loggable } from './log-schema.ts';

/** Writes lines of fields alone: a message would pass by the schema. */
export type Logger = Readonly<
  Record<
    'debug' | 'info' | 'warn' | 'error' | 'fatal',
    (fields: { readonly event: string; readonly [field: string]: unknown }) => void
  >
>;

export interface LogOptions {
  readonly level: string;
  /** For people rather than machines; by default on a terminal. */
  readonly pretty: boolean;
}

/** One JSON line an event, on standard output unless another destination is given, of the fields that log-schema.ts knows. */
export function createLogger({ level, pretty }: LogOptions, destination?: pino.DestinationStream): Logger {
  const options: pino.LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: {
      level: (label) => ({ level: label }),
    },
    // Whatever is written comes by here, also what a library or a slip makes of it.
    hooks: {
      logMethod([fields], method) {
        method.call(this, onlyFields(fields));
      },
    },
  };
  return pretty
    ? pino(options, pinoPretty({ colorize: hasColours(), sync: true }))
    : pino(options, destination ?? pino.destination(1));
}

/** What pino would make a message of is made fields. */
function onlyFields(given: unknown): Record<string, unknown> {
  if (given instanceof Error) return loggable({ event: 'error', ...errorFields(given) });
  return typeof given === 'object' && given !== null ? loggable(given as Record<string, unknown>) : {};
}

/** Whether standard output is a terminal whose user wants colours (NO_COLOR). */
const hasColours = () => process.stdout.isTTY && process.stdout.hasColors();

/** An error as log fields: its stable code and its chain in words; where in this program, if it is a fault of ours. */
export function errorFields(error: unknown): { code: string; error: string; stack?: string } {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unexpected';
  const fields = { code, error: describeError(error) };
  return code === 'unexpected' && error instanceof Error ? { ...fields, stack: framesOf(error) } : fields;
}

/** A stack without the message above it, which `error` has already, and in which nothing is quoted. */
function framesOf({ stack = '', message }: Error): string {
  return stack
    .replace(message, '')
    .split('\n')
    .filter((line) => line.startsWith('    at '))
    .join('\n');
}
