import { describe, expect, test } from 'vitest';
import { describeError, WarehouseError } from '../../../src/core/errors.ts';
import { errorFields } from '../../../src/core/logger.ts';
import { quote, removeQuotes } from '../../../src/core/quote.ts';
import { createLogger, pickLogFields } from '../../../src/operate/logging/create-logger.ts';

describe('a quotation', () => {
  test.each([
    ['v3.orders.create: NOK: «Jan Jansen is not known»', 'v3.orders.create: NOK: «…»'],
    ['«a» and «b»', '«…» and «…»'],
    ['cut off: «Jan Jan', 'cut off: «…»'],
    ['nothing quoted', 'nothing quoted'],
  ])('is left out of %j', (text, expected) => expect(removeQuotes(text)).toBe(expected));

  test('cannot be ended by the quoted text, and is cut to 200 characters', () => {
    expect(quote('a» Jan «b')).toBe("«a' Jan 'b»");
    expect(removeQuotes(`${quote(`${quote('x')} Jan`)} ours`)).toBe('«…» ours');
    expect(quote('x'.repeat(1_000))).toHaveLength(202);
  });

  test('drops characters that Postgres cannot store or that change how text is shown', () => {
    expect(quote('bad value \0 here')).toBe('«bad value  here»');
    expect(quote('a\u202eb\u2066c\u200fd\u001b[31m\u009b')).toBe('«abcd[31m»');
    expect(quote(`${'x'.repeat(199)}😀`)).toBe(`«${'x'.repeat(199)}\ufffd»`);
  });
});

describe('the description of an error', () => {
  const database = (code: string, message: string) =>
    Object.assign(new Error(message), { name: 'error', code });
  test.each<[string, unknown, string]>([
    [
      'of ours',
      new WarehouseError('timeout', 'v3.x: no answer', { outcome: 'unknown' }),
      'v3.x: no answer',
    ],
    [
      'of the language',
      new TypeError('no such member in Jan'),
      'TypeError: «no such member in Jan»',
    ],
    [
      'of the database about itself',
      database('28P01', 'password authentication failed'),
      'password authentication failed',
    ],
    [
      'of a refused connection',
      Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:6379'), {
        code: 'ECONNREFUSED',
        address: '127.0.0.1',
        port: 6_379,
      }),
      '127.0.0.1:6379: the connection is refused; nothing listens there, or a firewall refuses it (ECONNREFUSED)',
    ],
    [
      'of a host of which no address answers',
      new AggregateError([
        Object.assign(new Error('getaddrinfo'), { code: 'EAI_AGAIN', hostname: 'erp.example' }),
      ]),
      'erp.example: the name server does not answer (EAI_AGAIN)',
    ],
    [
      'of a database that starts',
      database('57P03', 'the database system is starting up'),
      'Postgres is starting or stopping (57P03)',
    ],
    [
      'of a queue that is away',
      new Error("Stream isn't writeable and enableOfflineQueue options is false"),
      'Redis cannot be reached',
    ],
    [
      'of the database about a row',
      database('23505', 'duplicate key Jan'),
      '23505: «duplicate key Jan»',
    ],
    ['of anything else', Object.assign(new Error('Jan'), { name: 'OddError' }), 'OddError: «Jan»'],
    [
      'with its cause',
      new WarehouseError('nok', 'outer', { outcome: 'unknown', cause: new SyntaxError('Jan') }),
      'outer: SyntaxError: «Jan»',
    ],
  ])('%s', (_what, error, words) => expect(describeError(error)).toBe(words));

  test('of a lost connection has no stack: the fault is not in this program', () => {
    const lost = new Error('Connection terminated unexpectedly');
    expect(errorFields(lost)).not.toHaveProperty('stack');
  });

  test('of a programming error has its stack, without the message again', () => {
    const { stack = '' } = errorFields(new SyntaxError('Jan'));
    expect(stack).toMatch(/^ {4}at /);
    expect(stack).not.toContain('Jan');
  });
});

test('a log line has the fields of the schema, and only the names of others', () => {
  const at = new Date(0);
  expect(
    pickLogFields({
      event: 'x',
      error: 'a «Jan»',
      warnings: ['«Jan»', 'b'],
      dueAt: at,
      missed: 3,
      client: null,
      email: 'jan@example.com',
      payload: {},
    }),
  ).toEqual({
    event: 'x',
    error: 'a «…»',
    warnings: ['«…»', 'b'],
    dueAt: at,
    missed: 3,
    client: null,
    leftOut: ['email', 'payload'],
  });
  expect(pickLogFields({ reason: { name: 'Jan' } })).toEqual({ reason: '(left out)' });
});

test('no form of a log call bypasses the schema', () => {
  const written: string[] = [];
  const log = createLogger('info', { write: (line: string) => written.push(line) });
  // The types forbid this call. A mistake could still make it.
  const logUntyped = log.error as unknown as (given: unknown) => void;
  for (const given of [new SyntaxError('Jan'), { event: 'x', err: new Error('Jan') }, 'Jan'])
    logUntyped.call(log, given);
  expect(written.map((line) => JSON.parse(line).event)).toEqual(['error', 'x', undefined]);
  expect(written.join('')).not.toContain('Jan');
});
