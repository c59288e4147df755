/**
 * The variables of OpenTelemetry, with the names and meanings of its specification. The SDK reads no variable itself.
 */

import { z } from 'zod';
import { wholeNumber } from './values.ts';

/** Attributes that describe this process to a receiver, as `name=value` pairs with percent-encoded values. */
type Attributes = Readonly<Record<string, string>>;

/** Where and how traces or metrics are sent. */
export interface SignalTarget {
  readonly url: string;
  /** May hold credentials. */
  readonly headers: Attributes;
  readonly encoding: 'protobuf' | 'json';
  readonly compression: 'gzip' | 'none';
  /** Timeout of one export with its retries. */
  readonly timeoutMs: number;
}

/** Which traces are recorded. `parentBased`: a trace that another program began keeps the decision of that program. */
export interface TraceSampling {
  readonly parentBased: boolean;
  /** Share of the traces that are recorded, from 0 to 1. */
  readonly share: number;
}

/** The settings of traces and metrics by OTLP. A null is not sent. */
export interface TelemetrySettings {
  readonly serviceName: string;
  readonly resource: Attributes;
  readonly traces: (SignalTarget & { readonly sampling: TraceSampling }) | null;
  readonly metrics: (SignalTarget & { readonly intervalMs: number }) | null;
}

const text = z.string().optional();
const milliseconds = wholeNumber(1, 86_400_000).optional();

/** The variables, for the list of all variables. `readTelemetry` checks those that are texts, if they have an effect. */
export const telemetryVariables = {
  OTEL_SDK_DISABLED: text,
  OTEL_SERVICE_NAME: text,
  OTEL_RESOURCE_ATTRIBUTES: text,
  OTEL_EXPORTER_OTLP_ENDPOINT: text,
  OTEL_EXPORTER_OTLP_HEADERS: text,
  OTEL_EXPORTER_OTLP_PROTOCOL: text,
  OTEL_EXPORTER_OTLP_COMPRESSION: text,
  OTEL_EXPORTER_OTLP_TIMEOUT: milliseconds,
  OTEL_TRACES_EXPORTER: text,
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: text,
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: text,
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: text,
  OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: text,
  OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: milliseconds,
  OTEL_TRACES_SAMPLER: text,
  OTEL_TRACES_SAMPLER_ARG: text,
  OTEL_METRICS_EXPORTER: text,
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: text,
  OTEL_EXPORTER_OTLP_METRICS_HEADERS: text,
  OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: text,
  OTEL_EXPORTER_OTLP_METRICS_COMPRESSION: text,
  OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: milliseconds,
  OTEL_METRIC_EXPORT_INTERVAL: milliseconds,
};

/** Of these variables, the value may be a secret. */
export const telemetrySecrets = [
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_EXPORTER_OTLP_TRACES_HEADERS',
  'OTEL_EXPORTER_OTLP_METRICS_HEADERS',
] as const;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads where traces and metrics are sent. Returns null if nothing is sent: without an endpoint, nothing is. Adds one
 * line per problem to `problems`; a variable without effect is no problem.
 */
export function readTelemetry(env: Environment, problems: string[]): TelemetrySettings | null {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true') return null;
  const traces = readTarget('TRACES', env, problems);
  const metrics = readTarget('METRICS', env, problems);
  if (traces === null && metrics === null) return null;
  const resource = readPairs('OTEL_RESOURCE_ATTRIBUTES', env, problems);
  return {
    serviceName: env.OTEL_SERVICE_NAME ?? resource['service.name'] ?? 'fulfilment-sync',
    resource,
    traces: traces === null ? null : { ...traces, sampling: readSampling(env, problems) },
    metrics: metrics === null ? null : { ...metrics, intervalMs: Number(env.OTEL_METRIC_EXPORT_INTERVAL ?? 60_000) },
  };
}

/** Reads the target of a signal. A variable of the signal comes before the general one. */
function readTarget(signal: 'TRACES' | 'METRICS', env: Environment, problems: string[]): SignalTarget | null {
  const nameOf = (option: string) =>
    env[`OTEL_EXPORTER_OTLP_${signal}_${option}`] === undefined
      ? `OTEL_EXPORTER_OTLP_${option}`
      : `OTEL_EXPORTER_OTLP_${signal}_${option}`;
  const endpointName = nameOf('ENDPOINT');
  const endpoint = env[endpointName];
  if (endpoint === undefined || !isExported(`OTEL_${signal}_EXPORTER`, env, problems)) return null;
  const base = readUrl(endpointName, endpoint, problems);
  const isWhole = endpointName !== 'OTEL_EXPORTER_OTLP_ENDPOINT';
  if (!isWhole) base.pathname = `${base.pathname.replace(/\/$/, '')}/v1/${signal.toLowerCase()}`;
  const protocol = readChoice(nameOf('PROTOCOL'), 'http/protobuf', ['http/protobuf', 'http/json'], env, problems);
  return {
    url: base.href,
    headers: readPairs(nameOf('HEADERS'), env, problems),
    encoding: protocol === 'http/json' ? 'json' : 'protobuf',
    compression: readChoice(nameOf('COMPRESSION'), 'none', ['none', 'gzip'], env, problems),
    timeoutMs: Number(env[nameOf('TIMEOUT')] ?? 10_000),
  };
}

/** Returns true if a signal is sent by OTLP. Prometheus needs no setting: the admin server always has /metrics. */
function isExported(name: string, env: Environment, problems: string[]): boolean {
  return readChoice(name, 'otlp', ['otlp', 'none', 'prometheus'], env, problems) === 'otlp';
}

function readChoice<const T extends string>(
  name: string,
  fallback: NoInfer<T>,
  choices: readonly T[],
  env: Environment,
  problems: string[],
): T {
  const given = env[name]?.trim();
  const chosen = given === undefined ? fallback : choices.find((choice) => choice === given);
  if (chosen === undefined) problems.push(`${name}: must be one of ${choices.join(', ')}`);
  return chosen ?? fallback;
}

/** Reads the URL of a receiver. No message shows it, because it may hold a password. */
function readUrl(name: string, given: string, problems: string[]): URL {
  if (URL.canParse(given) && /^https?:\/\//.test(given)) return new URL(given);
  problems.push(`${name}: must be an http or https address, such as http://localhost:4318`);
  return new URL('http://localhost');
}

/** The name of a header is a token of HTTP. */
const headerName = /^[\w!#$%&'*+.^`|~-]+$/;
const attributeName = /^[\x21-\x7e]+$/;

/** Reads pairs such as `name=value,other=a%20text`. No message shows a value, because it may be a secret. */
function readPairs(name: string, env: Environment, problems: string[]): Record<string, string> {
  const isName = name.endsWith('_HEADERS') ? headerName : attributeName;
  const pairs: Record<string, string> = {};
  for (const pair of (env[name] ?? '').split(',').map((part) => part.trim())) {
    if (pair === '') continue;
    const [key = '', ...rest] = pair.split('=').map((part) => part.trim());
    const decoded = rest.length > 0 && isName.test(key) ? decode(rest.join('=')) : null;
    if (decoded === null) {
      problems.push(`${name}: must be name=value pairs between commas; percent-encode other characters of a value`);
      return {};
    }
    pairs[key] = decoded;
  }
  return pairs;
}

/** Decodes a percent-encoded value. Returns null if it cannot be decoded, or if it holds anything but plain text. */
function decode(value: string): string | null {
  if (!/^[\x20-\x7e]*$/.test(value)) return null;
  try {
    const decoded = decodeURIComponent(value);
    return /\p{Cc}/u.test(decoded) ? null : decoded;
  } catch (error) {
    if (error instanceof URIError) return null;
    throw error;
  }
}

const samplers = {
  always_on: { parentBased: false, share: 1 },
  always_off: { parentBased: false, share: 0 },
  traceidratio: { parentBased: false, share: null },
  parentbased_always_on: { parentBased: true, share: 1 },
  parentbased_always_off: { parentBased: true, share: 0 },
  parentbased_traceidratio: { parentBased: true, share: null },
} as const;

function readSampling(env: Environment, problems: string[]): TraceSampling {
  const names = Object.keys(samplers) as (keyof typeof samplers)[];
  const name = readChoice('OTEL_TRACES_SAMPLER', 'parentbased_always_on', names, env, problems);
  const { parentBased, share } = samplers[name];
  if (share !== null) return { parentBased, share };
  const argument = env.OTEL_TRACES_SAMPLER_ARG ?? '1';
  const ratio = /^(?:\d+|\d*\.\d+)$/.test(argument) ? Number(argument) : Number.NaN;
  if (!(ratio <= 1)) problems.push('OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1');
  return { parentBased, share: ratio };
}
