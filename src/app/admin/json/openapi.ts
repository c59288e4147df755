import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { version } from '../../version.ts';

const jsonType = 'application/json';
const errorSchema = toSchema(z.strictObject({ error: z.string() }));

/**
 * Registers `/openapi.json`: the OpenAPI 3.1 document of the pages as JSON.
 * @param basePath path that a proxy puts before all others
 */
export function registerOpenApiRoute(app: FastifyInstance, basePath: string): void {
  const document = createOpenApiDocument(basePath);
  app.get('/openapi.json', async (_request, reply) => reply.send(document));
}

/** Creates the document from the schemas of the pages. */
function createOpenApiDocument(basePath: string): Record<string, unknown> {
  const paths = Object.entries(pageDescriptions).map(([path, page]) => [path, { get: describePage(path, page) }]);
  return {
    openapi: '3.1.0',
    info: {
      title: 'fulfilment-sync',
      version,
      description: `The pages of a worker as JSON. Send \`Accept: ${jsonType}\`. They only read; actions are forms of the pages.`,
    },
    servers: [{ url: basePath === '' ? '/' : basePath }],
    paths: Object.fromEntries(paths),
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
    // Without ADMIN_TOKEN, this machine needs no token.
    security: [{ token: [] }, {}],
  };
}

function describePage(path: string, { summary, query, answer }: PageDescription): Record<string, unknown> {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const inQuery = query.map((name) => ({
    name,
    in: 'query',
    required: path === '/order',
    schema: { type: 'string' },
  }));
  const refusal = (description: string) => ({ description, content: { [jsonType]: { schema: errorSchema } } });
  return {
    summary,
    operationId:
      path === '/'
        ? 'overview'
        : path.slice(1).replaceAll(/[^a-z]+(\w)?/g, (_, next = '') => String(next).toUpperCase()),
    parameters: [...inPath, ...inQuery],
    responses: {
      200: { description: 'The page', content: { [jsonType]: { schema: toSchema(answer) } } },
      401: refusal('The token is missing or wrong'),
      '4XX': refusal('The request is not accepted'),
      503: refusal('The database cannot be reached'),
    },
  };
}

function toSchema(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'output', reused: 'inline' });
  return json;
}

const time = z.iso.datetime({ offset: true });
const maybeTime = time.nullable();
const maybeText = z.string().nullable();
const count = z.int();
const maybeNumber = z.number().nullable();

const series = z.array(z.strictObject({ name: z.string(), values: z.array(maybeNumber) }));
const charts = z.array(
  z.strictObject({
    span: z.string(),
    stepMinutes: count,
    times: z.array(time).describe('Beginning of each step; the last step is under way'),
    rows: series.describe('Rows that polls wrote, by stream'),
    pushes: series.describe('Attempts per minute, by outcome'),
    waits: series.describe('Seconds from insert to done: p50 and p99'),
    oldestPending: series.describe('Age of the oldest pending row, in seconds'),
    streamAges: series.describe('Seconds since the last complete poll, by stream'),
  }),
);

const problem = z.strictObject({
  code: z.string(),
  severity: z.enum(['bad', 'warn', 'note']),
  client: maybeText.describe('null: every client'),
  subject: z.string(),
  detail: z.string().optional(),
  text: z.string(),
  remedy: maybeText,
  page: z.string().optional(),
});
const lateJob = z.strictObject({
  client: z.string(),
  job: z.string(),
  lastSuccessAt: maybeTime,
  since: time,
  because: z.enum(['failing', 'paused', 'not run']),
});
const stream = z.strictObject({
  client: z.string(),
  stream: z.string(),
  job: z.string(),
  lastAttemptAt: maybeTime,
  lastSuccessAt: maybeTime,
  lastChangeAt: maybeTime,
  newestSourceAt: maybeTime,
  fetchedSoFar: maybeNumber,
  firstLoad: z.boolean(),
  readByDay: z.boolean(),
  lastFetched: count,
  usualFetched: maybeNumber,
  changedLastDay: z.number(),
  usualPerDay: maybeNumber,
  reconciledAt: maybeTime,
  missing: maybeNumber.describe('Missing rows that the last reconciliation found and fixed'),
  stale: maybeNumber.describe('Outdated rows that it found and fixed'),
  extra: maybeNumber.describe('Rows that it found deleted at the service'),
  lateSecondsP99: maybeNumber,
  gaps: z.array(z.strictObject({ from: z.string(), to: z.string() })),
  openRescans: z.array(
    z.strictObject({
      id: count,
      kind: z.string(),
      background: z.boolean(),
      fetched: count,
      from: maybeText,
      to: maybeText,
      expected: maybeNumber,
    }),
  ),
  quarantined: count,
  recentRows: z.array(count).describe('Rows written by the latest runs that wrote any'),
});
const outboxState = z.strictObject({
  client: z.string(),
  ...{ pending: count, sending: count, unknown: count, toDecide: count, dead: count, doneLastDay: count },
  oldestSeconds: maybeNumber,
  oldestMovingSeconds: maybeNumber,
});
const gate = z.strictObject({
  gate: z.string(),
  client: z.string(),
  nextAt: time,
  takenAt: time,
  finishedAt: maybeTime,
  taken: count,
  spent: count,
});
const outboxRow = {
  id: count,
  client: z.string(),
  kind: z.string(),
  reference: z.string(),
  status: z.string(),
  attempts: count,
  nextAttemptAt: maybeTime,
  createdAt: time,
  finishedAt: maybeTime,
  because: maybeText,
};
const step = z.strictObject({
  at: time,
  step: z.string(),
  by: z.string(),
  became: z.string(),
  durationMs: maybeNumber,
  error: maybeText,
});
const pause = z.strictObject({ since: time, by: z.string(), forEveryClient: z.boolean() }).nullable();
const run = z.strictObject({
  ...{ id: count, client: z.string(), job: z.string(), trigger: z.string(), status: z.string(), worker: z.string() },
  ...{ startedAt: time, finishedAt: maybeTime, pages: count, fetched: count },
  ...{ created: count, updated: count, removed: count, quarantined: count },
  error: maybeText,
  warnings: z.array(z.string()),
});
const scheduledJob = z.strictObject({
  ...{ client: z.string(), job: z.string(), schedule: z.string(), dueAt: maybeTime, lastSuccessAt: maybeTime },
  ...{ running: z.boolean(), lastOutcome: maybeText, consecutiveFailures: count, pause },
});
const quarantined = z.strictObject({
  ...{ id: count, client: z.string(), stream: z.string(), resourceId: maybeNumber, memberPath: z.string() },
  ...{ reason: z.string(), times: count, firstSeenAt: time, lastSeenAt: time, worker: z.string(), run: maybeNumber },
});
const auditEntry = z.strictObject({
  at: time,
  by: z.string(),
  action: z.string(),
  client: maybeText,
  detail: z.string(),
});
const event = z.strictObject({
  at: time,
  isDay: z.boolean().describe('True if only the day is known'),
  source: z.enum(['outbox', 'order', 'shipment', 'parcel', 'return', 'document']),
  text: z.string(),
  error: maybeText,
  tone: z.string(),
  outboxId: maybeNumber,
});
const hasMore = z.boolean().describe('True if there are more than are listed');
const foundOrder = z.strictObject({ client: z.string(), number: z.string(), foundBy: z.array(z.string()) });

/** A page: its summary, the parameters of its query, and its JSON. */
interface PageDescription {
  readonly summary: string;
  readonly query: readonly string[];
  readonly answer: z.ZodType;
}

/** All pages by path. */
export const pageDescriptions: Readonly<Record<string, PageDescription>> = {
  '/': {
    summary: 'Problems, streams, outbox and charts',
    query: [],
    answer: z.strictObject({
      now: time.describe('The clock of the database'),
      problems: z.array(problem),
      lateJobs: z.array(lateJob),
      streams: z.array(stream),
      outbox: z.array(outboxState),
      charts,
      gates: z.array(gate),
    }),
  },
  '/charts': { summary: 'Charts of a client', query: ['client'], answer: z.strictObject({ charts }) },
  '/orders': {
    summary: 'Finds orders',
    query: ['q'],
    answer: z.strictObject({ orders: z.array(foundOrder), hasMore }),
  },
  '/order': {
    summary: 'The timeline of an order',
    query: ['client', 'number'],
    answer: z.strictObject({
      ...{ client: z.string(), number: z.string() },
      orderIds: z.array(z.number()),
      stages: z.array(z.strictObject({ name: z.string(), at: maybeTime })),
      events: z.array(event),
      hasMore,
    }),
  },
  '/outbox': {
    summary: 'Rows of the outbox',
    query: ['client', 'status', 'kind', 'reference'],
    answer: z.strictObject({ rows: z.array(z.strictObject(outboxRow)), hasMore }),
  },
  '/outbox/{id}': {
    summary: 'A row of the outbox with its history; personal data is masked',
    query: [],
    answer: z.strictObject({
      ...outboxRow,
      ...{ lastError: maybeText, mayBeCarriedOut: z.boolean(), advice: z.string() },
      payload: z.unknown().describe('JSON; personal data is masked'),
      result: z.unknown().describe('JSON'),
      history: z.array(step),
    }),
  },
  '/runs': {
    summary: 'Runs, newest first',
    query: ['client', 'job', 'status', 'before'],
    answer: z.strictObject({ runs: z.array(run), hasMore }),
  },
  '/schedules': {
    summary: 'The schedules of this worker, and pauses',
    query: ['client'],
    answer: z.strictObject({
      now: time,
      jobs: z.array(scheduledJob),
      pushes: z.array(z.strictObject({ client: z.string(), isOn: z.boolean(), pause })),
    }),
  },
  '/quarantine': {
    summary: 'Resources that could not be decoded or stored',
    query: ['client', 'stream'],
    answer: z.strictObject({ rows: z.array(quarantined), hasMore }),
  },
  '/audit': {
    summary: 'The latest entries of the audit',
    query: [],
    answer: z.strictObject({ entries: z.array(auditEntry) }),
  },
};
