import {
  count,
  date,
  defineFields,
  flag,
  one,
  personalField,
  text,
  time,
} from '../../service/decoding/fields.ts';
import { type DateWindow, readWindow } from '../poll.ts';
import { findUnlinkedAuthorizations } from '../sql/authorization-rows.ts';
import type { StreamTransaction } from '../sql/stream-transaction.ts';
import { requestReads } from '../sql/waiting-reads.ts';
import { declareStream, type Stream } from '../stream.ts';
import { authorizations, rereadArrivedAuthorizations } from './authorizations.ts';

/**
 * A cursor by id would not do: a return item may be processed long after others with larger ids.
 */
const processedOn: DateWindow = {
  pass: 'processed',
  attribute: 'processedOn',
  firstRunDays: 400,
};

/**
 * Lines of processed returns (docs/interface.md, 12.1 Fields). There is no read by id (12.2
 * Operations), so a quarantined one stays until the list shows it again.
 */
export const returnItems = declareStream<Stream>({
  name: 'return-items',
  list: 'v3.returnItems.list',
  get: null,
  include: [],
  resource: {
    table: 'return_items',
    fields: defineFields('returnItem', {
      attributes: {
        sku: text,
        quantity: count,
        condition: text,
        processedOn: date,
        processedIn: text,
        restockIn: text,
        restockOn: time,
        comment: personalField(text),
        redeliver: flag,
        externalOrderNumber: text,
      },
      relationships: {
        order: one,
        orderItem: one,
        product: one,
        return: one,
        returnMerchandiseAuthorizationItem: one,
        returnReason: one,
        shipmentItem: one,
      },
    }),
    children: [],
    erasedWithOrders: true,
  },
  rescan: {
    table: 'return_items',
    filter: 'processedOn',
    dates: ['processed_on'],
    moved: ['processed_on'],
    horizonDays: null,
    sorted: true,
  },
  afterChanges: rereadUnlinked,

  async poll(context, pass) {
    await pass(() => readWindow(context, processedOn));
    await pass(() => rereadArrivedAuthorizations(context));
  },
});

/** Requests to read the announced returns again whose return items have arrived. */
async function rereadUnlinked(
  transaction: StreamTransaction,
  ids: readonly number[],
): Promise<void> {
  const unlinked =
    ids.length === 0
      ? []
      : await findUnlinkedAuthorizations(transaction.trx, transaction.client, ids);
  await requestReads({ ...transaction, stream: authorizations.name }, unlinked, 'returned');
}
