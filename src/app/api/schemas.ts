import { z } from 'zod';
import { dayMs } from '../../core/time.ts';
import { columnTypes, type MirrorTable } from '../../erp/mirror/mirror-tables.ts';
import { outboxStatuses } from '../../erp/outbox/read-outbox.ts';
import { orders } from '../../sync/streams/orders.ts';
import { returnItems } from '../../sync/streams/return-items.ts';
import { shipments } from '../../sync/streams/shipments.ts';

/** Maximum number of rows in one request. */
const maxRows = 500;
/** Maximum length of a text in an address or a header. */
const maxText = 200;

/** A whole number within limits. */
const whole = (min: number, max: number, words = `must be a whole number from ${min} to ${max}`) =>
  z.coerce.number(words).int(words).min(min, words).max(max, words);
/** A text that is not empty. */
const textUpTo = (max: number) =>
  z.string().min(1, 'must not be empty').max(max, `must have at most ${max} characters`);

const id = whole(1, Number.MAX_SAFE_INTEGER, 'must be an id: a whole number above 0');
export const idParams = z.object({ id });
export const skuParams = z.object({ sku: textUpTo(maxText) });
export const numberQuery = z.object({ number: textUpTo(maxText) });
export const changesQuery = z.object({
  after: whole(0, Number.MAX_SAFE_INTEGER, 'must be a seq: a whole number, or 0').default(0),
  limit: whole(1, 1_000).default(500),
});
export const keyHeaders = z.object({
  'idempotency-key': textUpTo(maxText).optional(),
});

const time = z.string().meta({ format: 'date-time' });

/** A little less than what the outbox takes, because of clocks that differ. */
const maxWaitMs = (100 * 365 - 1) * dayMs;

const newRow = z.strictObject({
  kind: textUpTo(64),
  reference: textUpTo(maxText),
  payload: z.unknown().default({}).meta({ description: 'As docs/outbox-payloads.json says for the kind' }),
  notBefore: z.iso
    .datetime({ offset: true, error: 'must be a time with its zone, such as 2026-05-04T10:00:00+02:00' })
    .refine((text) => Math.abs(Date.parse(text) - Date.now()) < maxWaitMs, 'must be within 100 years from now')
    .optional(),
});
const rowCount = `must have 1 to ${maxRows} rows`;
export const newRows = z.union([newRow, z.array(newRow).min(1, rowCount).max(maxRows, rowCount)]);

const newId = z.object({ id: z.int() });
export const newIds = z.union([newId, z.array(newId)]);

export const outboxRow = z.object({
  id: z.int(),
  client: z.string(),
  kind: z.string(),
  reference: z.string(),
  status: z.enum(outboxStatuses),
  attempts: z.int(),
  nextAttemptAt: time.nullable(),
  createdAt: time,
  finishedAt: time.nullable(),
  because: z.string().nullable().meta({ description: 'Why it is not done' }),
  lastError: z.string().nullable(),
  waitsFor: z.int().nullable().meta({ description: 'Row that comes first' }),
  mayBeCarriedOut: z.boolean(),
  payload: z.unknown(),
  result: z.unknown(),
  history: z.array(
    z.object({
      at: time,
      step: z.string(),
      by: z.string(),
      became: z.string(),
      durationMs: z.int().nullable(),
      error: z.string().nullable(),
    }),
  ),
});

export const changes = z.object({
  changes: z.array(
    z.object({
      seq: z.int(),
      entity: z.string(),
      id: z.int().nullable(),
      key: z.string().nullable(),
      operation: z.enum(['created', 'updated', 'unlisted', 'removed']),
      changedColumns: z.array(z.string()).nullable(),
      changedAt: time,
    }),
  ),
  next: z.int().meta({ description: 'The `after` of the next request' }),
  hasMore: z.boolean(),
});

export const problem = z.looseObject({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  problems: z.array(z.string()).optional(),
  continueFrom: z.int().optional().meta({ description: '410: the `after` with which to continue' }),
});

const text = z.string().nullable();
const typeSchemas: Readonly<Record<string, z.ZodType>> = {
  bigint: z.int().nullable(),
  integer: z.int().nullable(),
  numeric: z.number().nullable(),
  boolean: z.boolean().nullable(),
  text,
  date: z.string().meta({ format: 'date' }).nullable(),
  timestamptz: time.nullable(),
  jsonb: z.unknown(),
  'text[]': z.array(z.string()).nullable(),
};
const own = { client: z.string(), first_seen_at: time, changed_at: time, unlisted_since: time.nullable() };

/** Returns the schema of a row of a mirror table, as the stream declares its columns. */
function rowOf(table: MirrorTable | undefined, more: Readonly<Record<string, z.ZodType>> = {}) {
  const { raw: _raw, ...columns } = table === undefined ? { raw: '' } : columnTypes(table);
  const entries = Object.entries(columns).map(([name, type]) => [name, typeSchemas[type] ?? z.unknown()]);
  return z.object({ ...Object.fromEntries(entries), ...own, ...more }) as z.ZodObject;
}

const [orderItems, orderAddresses] = orders.tables.children;
const [shipmentItems] = shipments.tables.children;

const orderAddress = rowOf(orderAddresses, { order_id: z.int(), role: z.enum(['delivery', 'billing']) }).omit({
  unlisted_since: true,
});
export const order = rowOf(orders.tables.parent, {
  state: z.string(),
  problem: text,
  items: z.array(rowOf(orderItems, { order_id: z.int() })),
  addresses: z.array(orderAddress),
  shipments: z.array(z.object({ id: z.int(), status: text })),
});
export const orderList = z.object({ orders: z.array(order) });
export const shipment = rowOf(shipments.tables.parent, {
  external_order_number: text,
  order_type: text,
  shipping_method: text,
  carrier_code: text,
  carrier_name: text,
  items: z.array(rowOf(shipmentItems, { shipment_id: z.int() })),
  parcels: z.array(
    z.object({
      package_number: z.string(),
      track_and_trace_code: text,
      tracking_url: text,
      current_track_trace_status: text,
      unlisted_since: time.nullable(),
    }),
  ),
});
export const returnItem = rowOf(returnItems.tables.parent);
export const stockLevel = z.object({
  client: z.string(),
  sku: z.string(),
  stock: z.int().nullable(),
  asked_at: time,
  changed_at: time,
});
