import type { RunContext } from '../../schedule/run.ts';
import {
  count,
  date,
  defineFields,
  json,
  many,
  one,
  personalField,
  text,
} from '../../service/decoding/fields.ts';
import { commitReading } from '../commit.ts';
import { readByIds, readsPerPoll } from '../read-by-ids.ts';
import { findOpenAuthorizations } from '../sql/authorization-rows.ts';
import { findDueReads } from '../sql/waiting-reads.ts';
import {
  declareStream,
  type MirroredResource,
  type PullContext,
  type StreamContext,
  toRescanContext,
} from '../stream.ts';

/** Items of an announced return (docs/interface.md, 11.2 Items). */
export const authorizationItem = defineFields('returnMerchandiseAuthorizationItem', {
  attributes: {
    externalReference: text,
    sku: text,
    quantity: count,
    reasonCode: text,
    metadata: personalField(json),
  },
  relationships: { shipmentItem: one, product: one, returnReason: one, returnItem: one },
});

/** Announced returns (docs/interface.md, 11.1 Fields). */
export const authorization = defineFields('returnMerchandiseAuthorization', {
  attributes: {
    externalReference: text,
    comments: personalField(text),
    metadata: personalField(json),
    status: text,
    createdOn: date,
    modifiedOn: date,
  },
  relationships: { shipment: one, returnMerchandiseAuthorizationItems: many },
});

/**
 * Return authorizations, which are announced returns. The service does not list them
 * (docs/interface.md, 11.4 Operations). The answers to pushes bring them.
 */
export const authorizations = declareStream<MirroredResource>({
  name: 'return-merchandise-authorizations',
  get: 'v3.returnMerchandiseAuthorizations.get',
  include: ['returnMerchandiseAuthorizationItems'],
  resource: {
    table: 'return_merchandise_authorizations',
    fields: authorization,
    children: [
      {
        table: 'return_merchandise_authorization_items',
        fields: authorizationItem,
        parentColumn: 'return_merchandise_authorization_id',
        listedIn: 'returnMerchandiseAuthorizationItems',
      },
    ],
    erasedWithOrders: true,
  },
});

/**
 * Reads announced returns by id until every line has its return item. Runs with the daily
 * reconciliation.
 */
export async function rereadAuthorizations(context: RunContext): Promise<void> {
  const { client, db } = context;
  const requested = await findDueReads(db, client, authorizations.name, null);
  const open = await findOpenAuthorizations(db, client);
  const rescan = toRescanContext(context, authorizations);
  await readAuthorizations(rescan, [...new Set([...requested, ...open])]);
}

/**
 * Reads the announced returns whose return items have arrived. Runs with the poll of return items.
 */
export async function rereadArrivedAuthorizations(context: StreamContext): Promise<void> {
  if (!context.state.mayHaveDueReads) return;
  const { db, client } = context;
  const due = await findDueReads(db, client, authorizations.name, readsPerPoll);
  await readAuthorizations({ ...context, stream: authorizations }, due);
}

async function readAuthorizations(context: PullContext, ids: readonly number[]): Promise<void> {
  for await (const { reading, settle } of readByIds(context, ids))
    await commitReading(context, reading, settle);
}
