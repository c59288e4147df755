import { count, date, defineFields, one, text, time } from '../../service/decoding/fields.ts';
import type { IncludedIndex } from '../../service/decoding/jsonapi.ts';
import type { DecodedFamily } from '../decode.ts';
import type { Family } from '../sql/mirror-tables.ts';
import { declareStream, type Stream } from '../stream.ts';

/**
 * The states in which an inbound may still change, or no longer (docs/interface.md, 13.3 States).
 */
const open = { statuses: ['PROCESSING', 'CHECKING', 'CHECKED'], closed: 'COMPLETED' };

/**
 * Inbounds with their items (docs/interface.md, 13.1 Fields and 13.2 Inbound items). How items are
 * linked to their inbound is not known (13.5 Not shown). If a list has the items beside its
 * inbounds and without a link, each inbound is read by id.
 */
export const inbounds = declareStream<Stream>({
  name: 'inbounds',
  list: 'v3.inbounds.list',
  get: 'v3.inbounds.get',
  include: ['inboundItems'],
  lines: { table: 'inbound_items', get: 'v3.inboundItems.get' },
  resource: {
    table: 'inbounds',
    fields: defineFields('inbound', {
      attributes: {
        reference: text,
        status: text,
        receivedIn: text,
        createdOn: time,
        checkingOn: time,
        completedOn: time,
      },
      relationships: { inboundPackingSlip: one },
    }),
    children: [
      {
        table: 'inbound_items',
        fields: defineFields('inboundItem', {
          attributes: { sku: text, quantity: count, lotNumber: text, expirationDate: date },
          relationships: { product: one, inboundPackingSlipItem: one },
        }),
        parentColumn: 'inbound_id',
        // The reconciliation reads a missing item by id to see if it is gone.
        listedIn: null,
      },
    ],
    erasedWithOrders: false,
    complement: findUnlinked,
  },
  rescan: {
    filter: null,
    dayColumn: 'created_on',
    dates: ['created_on', 'checking_on', 'completed_on'],
    moved: ['created_on', 'checking_on', 'completed_on'],
    horizonDays: null,
    recentDays: null,
    sorted: true,
  },
  passes: { new: true, open, rereads: { absent: 'unlisted' } },
});

/**
 * Tells which inbounds must be read by id, because the list has items beside its inbounds and
 * without a link.
 */
function findUnlinked({ parent, children }: Family, onTop: IncludedIndex): Partial<DecodedFamily> {
  if (onTop.size === 0 || children.some(({ rows }) => rows.length > 0)) return {};
  return { mustReadById: parent.status === open.closed ? 'changed' : 'always' };
}
