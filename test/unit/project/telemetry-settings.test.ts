import { expect, test } from 'vitest';
import { ConfigError } from '../../../config/config-error.ts';
import { findSetVariables, readConfig } from '../../../config/env.ts';

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector.test:4318' };
const read = (env: NodeJS.ProcessEnv) => readConfig({ database: false, clients: false }, env).telemetry;
const readProblems = (env: NodeJS.ProcessEnv) => {
  try {
    read(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
};

test('nothing is sent without an endpoint, or if it is switched off', () => {
  expect(read({})).toBeNull();
  expect(read({ OTEL_SERVICE_NAME: 'x', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })).toBeNull();
  expect(read({ ...endpoint, OTEL_SDK_DISABLED: 'TRUE', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })).toBeNull();
  expect(read({ ...endpoint, OTEL_TRACES_EXPORTER: 'none', OTEL_METRICS_EXPORTER: 'prometheus' })).toBeNull();
  expect(read({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' })).toMatchObject({ traces: null, metrics: {} });
  expect(read({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://x.test' })).toMatchObject({ traces: null, metrics: {} });
});

test('the settings of a signal come before the general ones, and an endpoint of a signal is taken whole', () => {
  const settings = read({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector.test/base/',
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://traces.test/api?tenant=1',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'http/protobuf',
    OTEL_EXPORTER_OTLP_TIMEOUT: '700',
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '900',
    OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: 'gzip',
    OTEL_EXPORTER_OTLP_HEADERS: 'a=1, authorization = Basic%20eA==',
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0.25',
  });
  const headers = { a: '1', authorization: 'Basic eA==' };
  expect(settings).toMatchObject({
    traces: {
      url: 'https://traces.test/api?tenant=1',
      encoding: 'json',
      compression: 'gzip',
      timeoutMs: 900,
      headers,
      sampling: { parentBased: true, share: 0.25 },
    },
    metrics: {
      url: 'https://collector.test/base/v1/metrics',
      encoding: 'protobuf',
      compression: 'none',
      timeoutMs: 700,
      headers,
      intervalMs: 60_000,
    },
  });
});

test('OTEL_SERVICE_NAME comes before the attribute service.name', () => {
  const attributes = { OTEL_RESOURCE_ATTRIBUTES: 'service.name=two,example.org/team=caf%C3%A9' };
  expect(read(endpoint)?.serviceName).toBe('fulfilment-sync');
  expect(read({ ...endpoint, ...attributes })).toMatchObject({
    serviceName: 'two',
    resource: { 'example.org/team': 'café' },
  });
  expect(read({ ...endpoint, ...attributes, OTEL_SERVICE_NAME: 'one' })?.serviceName).toBe('one');
});

test('a wrong value is named without the value, which may be a secret', () => {
  const problems = readProblems({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'kanarie',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'kanarie',
    OTEL_EXPORTER_OTLP_METRICS_HEADERS: 'x=kanarie%0a',
    OTEL_EXPORTER_OTLP_TIMEOUT: 'soon',
    OTEL_RESOURCE_ATTRIBUTES: 'x=kanarie%zz',
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '2',
    OTEL_METRIC_EXPORT_INTERVAL: '0',
  });
  const names = new Set(problems.map((problem) => problem.split(':', 1)[0]));
  expect([...names].sort()).toEqual([
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    'OTEL_EXPORTER_OTLP_METRICS_HEADERS',
    'OTEL_EXPORTER_OTLP_PROTOCOL',
    'OTEL_EXPORTER_OTLP_TIMEOUT',
    'OTEL_EXPORTER_OTLP_TRACES_HEADERS',
    'OTEL_METRIC_EXPORT_INTERVAL',
    'OTEL_RESOURCE_ATTRIBUTES',
    'OTEL_TRACES_SAMPLER_ARG',
  ]);
  expect(problems.join()).not.toContain('kanarie');
  expect(problems.join()).toContain('must be one of http/protobuf, http/json');
  expect(findSetVariables({ OTEL_SERVICE_NAMES: 'x' })).toEqual(['OTEL_SERVICE_NAMES']);
});
