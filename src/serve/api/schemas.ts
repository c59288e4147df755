import { z } from 'zod';
import { type ColumnType, readColumns } from '../../db/table-columns.ts';
import { type EntityName, entities, listEntityColumns } from '../../operate/sql/program-reads.ts';
import { textUpTo } from '../../push/check-payload.ts';
import { outboxStatuses } from '../../push/sql/read-outbox.ts';

/** Maximum length of a text in an address or a header. */
const maxText = 200;
/** Maximum length of a key: a sku has at most 200 characters, and others have parts besides. */
const maxKey = 300;

/** A whole number within limits. */
const whole = (min: number, max: number, words = `must be a whole number from ${min} to ${max}`) =>
  z.coerce.number(words).int({ error: words, abort: true }).min(min, words).max(max, words);
/** Refuses an empty text, which would count as 0. */
const notEmpty = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === '' ? Number.NaN : value), schema);
const id = whole(1, Number.MAX_SAFE_INTEGER, 'must be an id: a whole number above 0');
export const idParams = z.object({ id });
export const numberQuery = z.object({ number: textUpTo(maxText) });
export const changesQuery = z.object({
  after: notEmpty(
    whole(0, Number.MAX_SAFE_INTEGER, 'must be a seq: a whole number, or 0').default(0),
  ),
  limit: whole(1, 1_000).default(500),
});
export const keyHeaders = z.object({
  'idempotency-key': textUpTo(maxText).optional(),
});

const time = z.string().meta({ format: 'date-time' });

export const articleParams = z.object({ sku: textUpTo(maxText) });

export const newId = z.object({ id: z.int() });
export const newIds = z.union([newId, z.array(newId)]);
export const checked = z.object({
  problems: z
    .array(z.string())
    .meta({ description: 'What a worker would refuse; empty if there is nothing' }),
  why_unchecked: z
    .string()
    .nullable()
    .meta({ description: 'Why codes were not compared with the service lists' }),
});

export const outboxRow = z.object({
  id: z.int(),
  client: z.string(),
  kind: z.string(),
  reference: z.string(),
  status: z.enum(outboxStatuses),
  attempts: z.int(),
  next_attempt_at: time.nullable(),
  not_before: time.nullable(),
  created_at: time,
  finished_at: time.nullable(),
  because: z.string().nullable().meta({ description: 'Why it is not done' }),
  last_error: z.string().nullable(),
  waits_for: z.int().nullable().meta({ description: 'Row that comes first' }),
  rows_behind: z
    .array(z.int())
    .meta({ description: 'Rows that cannot be sent before it: the first 100' }),
  may_be_carried_out: z.boolean(),
  payload: z.unknown(),
  result: z.unknown(),
  history: z.array(
    z.object({
      at: time,
      step: z.string(),
      by: z.string(),
      became: z.string(),
      duration_ms: z.int().nullable(),
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
      changed_columns: z.array(z.string()).nullable(),
      changed_at: time,
    }),
  ),
  next: z.int().meta({ description: 'The `after` of the next request' }),
  has_more: z.boolean(),
});

export const problem = z.looseObject({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  problems: z.array(z.string()).optional(),
  continue_from: z
    .int()
    .optional()
    .meta({ description: '410: the `after` with which to continue' }),
});

const typeSchemas: Readonly<Record<string, z.ZodType>> = {
  bigint: z.int(),
  integer: z.int(),
  numeric: z.number(),
  boolean: z.boolean(),
  text: z.string(),
  date: z.string().meta({ format: 'date' }),
  'timestamp with time zone': time,
  jsonb: z.unknown(),
  'text[]': z.array(z.string()),
};

/** Returns the schema of some columns. */
const toShape = (columns: ReadonlyMap<string, ColumnType>) =>
  Object.fromEntries(
    [...columns].map(([name, { type, nullable }]) => {
      const schema = typeSchemas[type] ?? z.unknown();
      return [name, nullable ? schema.nullable() : schema];
    }),
  );

const rowOf = (entity: EntityName) => z.object(toShape(listEntityColumns(entity)));
const listOf = (entity: EntityName) => z.array(rowOf(entity));
/** Returns the schema of named columns of a view. */
const columnsOf = (view: string, names: readonly string[]) =>
  z.object(toShape(new Map([...readColumns(view)].filter(([name]) => names.includes(name)))));

const order = rowOf('orders').extend({
  ...columnsOf('order_overview', ['state', 'problem_code', 'problem']).shape,
  items: listOf('order_items'),
  addresses: listOf('order_addresses'),
  shipments: z.array(columnsOf('shipment_overview', ['id', 'status'])),
});
export const orderList = z.object({ orders: z.array(order) });
const parcelColumns = [
  'package_number',
  'track_and_trace_code',
  'tracking_url',
  'current_track_trace_status',
];
const shipment = rowOf('shipments').extend({
  ...toShape(
    new Map(
      [...readColumns('shipment_overview')].filter(([name]) => !['raw', 'read_no'].includes(name)),
    ),
  ),
  items: listOf('shipment_items'),
  parcels: z.array(columnsOf('parcel_overview', [...parcelColumns, 'unlisted_since'])),
});

const inbound = rowOf('inbounds').extend({ items: listOf('inbound_items') });
const slip = rowOf('inbound_packing_slips').extend({ items: listOf('inbound_packing_slip_items') });
const withParts: Partial<Record<EntityName, z.ZodObject>> = {
  orders: order,
  shipments: shipment,
  inbounds: inbound,
  inbound_packing_slips: slip,
};

export const entityNames = Object.keys(entities) as readonly EntityName[];

/** Returns the schema of a row of an entity. */
export const entityRow = (entity: EntityName): z.ZodObject => withParts[entity] ?? rowOf(entity);

export const anyEntityRow = z.union(
  entityNames.map((entity) => entityRow(entity).meta({ title: entity })) as [
    z.ZodObject,
    ...z.ZodObject[],
  ],
);
export const entityParams = z.object({
  entity: z
    .string()
    .meta({ enum: [...entityNames], description: 'Table, as `entity` of the feed names it' }),
  id: textUpTo(maxKey).meta({
    description: 'The `id` of an entry of the feed, or its `key` if it has one',
  }),
});
