import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import type { Random } from '../../../src/sandbox/random.ts';
import { orderPayload } from '../order-payload.ts';

/** An answer of a service. */
interface Answer {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
}
type Mutation = (answer: Answer, random: Random) => void;

const nestArrays = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
const changeText = (answer: Answer, change: (text: string) => string) => {
  answer.body = Buffer.from(change(answer.body.toString()));
};

/**
 * Changes that a hostile service makes to an answer: sizes, depths, encodings, numbers, headers and
 * statuses.
 */
const mutations: readonly Mutation[] = [
  (answer, random) => {
    for (let flips = random.between(1, 20); flips > 0 && answer.body.length > 0; flips--)
      answer.body[random.between(0, answer.body.length - 1)] = random.between(0, 255);
  },
  (answer, random) => {
    answer.body = answer.body.subarray(0, random.between(0, answer.body.length));
  },
  (answer, random) =>
    changeText(answer, (text) =>
      text.replace(/"id":/, `"x":${nestArrays(random.between(10, 5_000))},"id":`),
    ),
  (answer, random) =>
    changeText(answer, (text) =>
      text.replace(/"id":/, `"x":"${'x'.repeat(random.between(1, 5_000_000))}","id":`),
    ),
  (answer, random) =>
    changeText(answer, (text) =>
      text.replaceAll(/(?<=:)\d+/g, (digits) =>
        random.chance(0.1)
          ? random.pick(['1e400', '-1', '9007199254740993', '1.5', '0', '"7"', 'null'])
          : digits,
      ),
    ),
  (answer, random) =>
    changeText(answer, (text) =>
      text.replaceAll(/"[A-Z][^"]*"/g, (word) =>
        random.chance(0.1)
          ? random.pick(['"\\u0000"', '"\\ud800"', '{}', '[]', 'true', '"\\u202e"', '"2026-02-30"'])
          : word,
      ),
    ),
  (answer, random) =>
    changeText(answer, (text) =>
      text.replace(
        /"next":\s*"[^"?]*\?/,
        (link) => `${link}x=${'y'.repeat(random.between(1, 20_000))}&`,
      ),
    ),
  (answer) => {
    answer.body = Buffer.from(answer.body.toString(), 'utf16le');
  },
  (answer) => {
    answer.body = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf, 0xff, 0xfe]), answer.body]);
  },
  (answer) => {
    answer.body = gzipSync(answer.body);
    answer.headers['content-encoding'] = 'gzip';
  },
  (answer) => {
    answer.headers['content-encoding'] = 'br, gzip, x';
  },
  (answer, random) => {
    answer.headers['content-type'] = random.pick([
      'text/html',
      'image/png',
      '',
      'application/json; charset=utf-16',
    ]);
  },
  (answer, random) => {
    answer.status = random.pick([
      200, 204, 206, 304, 400, 401, 404, 409, 418, 422, 429, 500, 502, 503,
    ]);
    if (random.chance(0.3))
      answer.headers['retry-after'] = random.pick(['1', '999999', '-1', 'never']);
  },
  (answer, random) => {
    for (let more = random.between(1, 60); more > 0; more--)
      answer.headers[`x-${more}`] = 'y'.repeat(200);
  },
];

/**
 * A proxy between a worker and a service. While it is hostile, it changes about half of the
 * answers.
 */
export class HostileProxy {
  readonly url: URL;
  readonly close: () => Promise<void>;
  isHostile = true;
  /** Number of answers that were changed. */
  changed = 0;

  private constructor(url: URL, close: () => Promise<void>) {
    this.url = url;
    this.close = close;
  }

  static async start(service: URL, random: Random): Promise<HostileProxy> {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('error', () => undefined);
      request.on('end', () => {
        const init = {
          method: request.method ?? 'GET',
          headers: toHeaders(request.headers),
          redirect: 'manual' as const,
        };
        const body = chunks.length === 0 ? {} : { body: Buffer.concat(chunks) };
        void fetch(new URL(request.url ?? '/', service), { ...init, ...body }).then(
          (answer) =>
            proxy.#pass(answer, response, service, random).catch(() => response.destroy()),
          () => response.destroy(),
        );
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const close = () => {
      server.closeAllConnections();
      return new Promise<void>((resolve) => void server.close(() => resolve()));
    };
    const proxy = new HostileProxy(
      new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
      close,
    );
    return proxy;
  }

  async #pass(
    given: Response,
    response: ServerResponse,
    service: URL,
    random: Random,
  ): Promise<void> {
    const headers: Record<string, string> = {
      'content-type': given.headers.get('content-type') ?? 'application/json',
    };
    const answer: Answer = {
      status: given.status,
      headers,
      body: Buffer.from(await given.arrayBuffer()),
    };
    // Links lead back to the proxy.
    changeText(answer, (text) => text.replaceAll(service.origin, this.url.origin));
    if (this.isHostile && random.chance(0.5)) {
      this.changed++;
      for (let rounds = random.between(1, 2); rounds > 0; rounds--)
        random.pick(mutations)(answer, random);
    }
    const isBare = answer.status === 204 || answer.status === 304;
    response.writeHead(answer.status, answer.headers).end(isBare ? undefined : answer.body);
  }
}

const toHeaders = (headers: IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      typeof value === 'string' &&
      !['host', 'connection', 'content-length', 'expect'].includes(name)
        ? [[name, value]]
        : [],
    ),
  );

const paths = [
  '/',
  '/outbox',
  '/outbox/1',
  '/runs',
  '/schedules',
  '/quarantine',
  '/audit',
  '/queues',
  '/login',
  '/metrics',
  '/livez',
  '/readyz',
  '/assets/page.css',
  '/logout',
  '/outbox/1/retry',
  '/outbox/1/replace',
  '/schedules/run',
];
const tails = [
  '',
  '?reference=%00',
  '?client=%00&kind=%ff',
  '?said=%00',
  '?client=%ff',
  '?status=\u00ff',
  '?before=1e9',
  '?before=99999999999999999999',
  '?reference=%u202e',
  '/../../etc/passwd',
  '/%2e%2e/%2e%2e',
  '//x',
  '?next=//evil.example',
  `?${'a='.repeat(500)}`,
  '%',
  '?a[__proto__]=1',
  '?client=a&client=b',
];
const toHostileBody = (random: Random): string => {
  const size = random.between(0, 60_000);
  return random.pick([
    '',
    'x'.repeat(size),
    `token=${'y'.repeat(size)}`,
    `${'a=1&'.repeat(Math.floor(size / 4))}`,
    `payload=${encodeURIComponent(nestArrays(Math.floor(size / 8)))}`,
    '{"__proto__": {"a": 1}}',
    '\u0000\u0001\u0002',
    '%ff%fe=%00',
  ]);
};

/**
 * Sends one request to the admin server as raw bytes. Returns the first line of the answer; empty
 * if there is none.
 */
export function sendHostileRequest(port: number, token: string, random: Random): Promise<string> {
  const pickMostly = (usual: string, ...others: readonly string[]) =>
    random.chance(0.8) ? usual : random.pick(others);
  const method = random.chance(0.5)
    ? 'GET'
    : random.pick(['POST', 'POST', 'PUT', 'HEAD', 'DELETE', 'OPTIONS', 'G\u0001T', 'TRACE']);
  const body = method === 'GET' ? '' : toHostileBody(random);
  const lines = [
    `${method} ${random.pick(paths)}${random.pick(tails)} HTTP/1.1`,
    `host: ${pickMostly('localhost', '127.0.0.1', 'evil.example', '')}`,
    `authorization: ${pickMostly(`Bearer ${token}`, 'Bearer', 'Basic eA==', '\u00ff')}`,
    `content-type: ${pickMostly('application/x-www-form-urlencoded', 'application/json', 'multipart/form-data', 'x')}`,
    `content-length: ${pickMostly(String(body.length), '0', '10000000')}`,
    `accept: ${pickMostly('text/html', '*/*', 'x'.repeat(5_000))}`,
    `cookie: ${pickMostly('a=b', 'fulfilment_session=session.9999999999999.x.operator.y', '='.repeat(3_000))}`,
    'connection: close',
  ];
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect(port, '127.0.0.1', () =>
      socket.write(Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`, 'latin1')),
    );
    socket.setTimeout(2_000, () => socket.destroy());
    socket.on('data', (data) => {
      answer += data.toString('latin1');
      if (answer.includes('\r\n')) socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(answer.split('\r\n', 1)[0] ?? ''));
  });
}

const garbage = [
  null,
  0,
  -1,
  1.5,
  1e300,
  '',
  ' ',
  '\u202e',
  '\u001b[2J',
  'x'.repeat(100_000),
  true,
  [],
  {},
  [null],
  { a: { b: [] } },
  '2026-02-30',
  '__proto__',
  'é'.repeat(300),
];

/**
 * Makes a payload of a hostile ERP: members are removed, replaced, added, nested or made very
 * large.
 */
export function toHostilePayload(payload: object, random: Random): string {
  const change = (value: unknown, depth: number): unknown => {
    if (random.chance(0.08)) return random.pick(garbage);
    if (Array.isArray(value))
      return value.flatMap((item) => (random.chance(0.1) ? [] : [change(item, depth + 1)]));
    if (typeof value !== 'object' || value === null) return value;
    const members = Object.entries(value).flatMap(([name, member]) =>
      random.chance(0.05)
        ? []
        : [[random.chance(0.03) ? `${name}\u0001` : name, change(member, depth + 1)]],
    );
    return Object.fromEntries(
      random.chance(0.05) ? [...members, ['constructor', random.pick(garbage)]] : members,
    );
  };
  const changed = JSON.stringify(change(payload, 0)) ?? 'null';
  if (random.chance(0.03)) return `{"items": ${nestArrays(random.between(100, 3_000))}}`;
  if (random.chance(0.03)) return `{"items": [${'{},'.repeat(random.between(1, 200_000))}{}]}`;
  if (random.chance(0.03)) return `{"reference": ${random.pick(['1e131071', '-1e-16000', '1e5'])}}`;
  return random.chance(0.03) ? `{"x": "${'x'.repeat(random.between(1, 4_000_000))}"}` : changed;
}

/** Makes the body of a request of a hostile program to the API: one row, several, or none. */
export function toHostileRequest(reference: string, random: Random): string {
  const toRow = () => {
    const payload = toHostilePayload(orderPayload(reference), random);
    return `{"kind": "order.create", "reference": "${reference}", "payload": ${payload}}`;
  };
  if (random.chance(0.1)) {
    const content = random.pick(['A', 'A ', '\\"', '\u00e9']).repeat(random.between(1, 4_000_000));
    return `{"kind": "order_attachment.create", "reference": "${reference}", "payload": {"content": "${content}"}}`;
  }
  if (random.chance(0.1)) return toRow().slice(0, random.between(0, 2_000));
  if (random.chance(0.1)) return `[${'{},'.repeat(random.between(1, 200_000))}{}]`;
  return random.chance(0.5) ? toRow() : `[${Array.from({ length: random.between(1, 20) }, toRow)}]`;
}
