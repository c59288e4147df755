import { WarehouseError } from '../../core/errors.ts';
import { warn } from '../../schedule/run.ts';
import { count, date, defineFields, one, text, time } from '../../service/decoding/fields.ts';
import type { IncludedIndex } from '../../service/decoding/jsonapi.ts';
import { makeEmptyReading } from '../commit.ts';
import type { DecodedResource } from '../decode.ts';
import { findUnlistedOpen, readNew, readOpen, readWaiting } from '../poll.ts';
import { commitProgress } from '../rescan.ts';
import type { ResourceRows } from '../sql/mirror-tables.ts';
import { drawReadNo } from '../sql/stream-transaction.ts';
import { findUnlistedChildren, markChildrenUnlisted, type OpenKind } from '../sql/unlisted.ts';
import { declareStream, type RescanContext, type Stream } from '../stream.ts';

/** Inbounds that may still change (docs/interface.md, 13.3 States). */
const open: OpenKind = {
  table: 'inbounds',
  stream: 'inbounds',
  statuses: ['PROCESSING', 'CHECKING', 'CHECKED'],
  closed: 'COMPLETED',
};

/**
 * Inbounds with their items (docs/interface.md, 13.1 Fields and 13.2 Inbound items). How items are
 * linked to their inbound is not known (13.5 Not shown). If a list has the items beside its
 * inbounds and without a link, each inbound is read by id.
 */
const declared = declareStream<Stream>({
  name: 'inbounds',
  list: 'v3.inbounds.list',
  get: 'v3.inbounds.get',
  include: ['inboundItems'],
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
  },
  rescan: {
    table: 'inbounds',
    filter: null,
    dates: ['created_on', 'checking_on', 'completed_on'],
    moved: ['created_on', 'checking_on', 'completed_on'],
    horizonDays: null,
    sorted: true,
  },
  checkLines,

  async poll(context, pass) {
    const added = await pass(() => readNew(context));
    const listed = await pass(() => readOpen(context, open));
    if (listed === null) return;

    const isFirstLoad = added?.isFirstLoad ?? false;
    await pass(async () => {
      const unlisted = await findUnlistedOpen(context, open, listed.ids);
      const ids = unlisted.map(({ id }) => id);
      const rows = { kind: open, listed: listed.ids, unlisted: ids };
      await readWaiting(context, { isFirstLoad, open: rows });
    });
  },
});

/** Inbounds. Their decoder also tells which ones must be read by id. */
export const inbounds: Stream = {
  ...declared,
  decoder: (zone) => {
    const decode = declared.decoder(zone);
    return (received, onTop) => markUnlinked(decode(received, onTop), onTop);
  },
};

/** Marks an inbound to be read by id if the list has items beside its inbounds, without a link. */
function markUnlinked(decoded: DecodedResource, onTop: IncludedIndex): DecodedResource {
  if ('problem' in decoded || onTop.size === 0) return decoded;
  const { parent, children } = decoded;
  if (children.some(({ rows }) => rows.length > 0)) return decoded;

  return { ...decoded, mustReadById: parent.status === open.closed ? 'changed' : 'always' };
}

const readLine = 'v3.inboundItems.get';
/**
 * Maximum number of lines per page that are read by id. The next reconciliation reads the others.
 */
const maxAskedPerPage = 50;

/**
 * Checks lines that no relationship lists, during a reconciliation. If a parent came with all its
 * lines, a stored line that did not come with it is read by id, and marked as unlisted if the
 * service does not know it.
 */
async function checkLines(
  context: RescanContext,
  resources: readonly ResourceRows[],
  pages: number,
): Promise<void> {
  const { client, db, run, stream, progress } = context;
  const [table] = stream.tables.children;
  if (table === undefined || progress.rescan.kind !== 'reconcile') return;

  const maxAsked = maxAskedPerPage * pages;
  const unlisted = await findUnlistedChildren(db, client, table, {
    parents: resources.map(({ parent }) => parent.id),
    seen: resources.flatMap(({ children }) =>
      children.flatMap(({ rows }) => rows.map(({ id }) => id as number)),
    ),
    before: progress.rescan.startedAt ?? run.startedAt,
    limit: maxAsked + 1,
  });
  if (unlisted.length > maxAsked)
    warn(
      context,
      `${stream.name}: more than ${maxAsked} lines did not come with their parents; ` +
        `${maxAsked} were checked`,
    );
  if (unlisted.length === 0) return;

  const readNo = await drawReadNo(db);
  const unknown: number[] = [];
  for (const id of unlisted.slice(0, maxAsked)) if (!(await hasLine(context, id))) unknown.push(id);
  if (unknown.length === 0) return;

  await commitProgress(context, makeEmptyReading(readNo), async (transaction) => {
    const places = { parent: stream.tables.parent.name, table };
    const marked = await markChildrenUnlisted(transaction, places, unknown, readNo);
    transaction.addChanges(marked);
    return { extra: marked.length };
  });
}

/**
 * Returns true if the service has a line, or if its 404 proves nothing, because the path may be
 * wrong. If it refuses to say so, the line stays, with a warning: the other lines are checked.
 * @throws WarehouseError if the run must end
 */
async function hasLine(context: RescanContext, id: number): Promise<boolean> {
  const { health, signal, stream, warehouse } = context;
  try {
    const found = await warehouse.hasResource(readLine, id, { signal });
    health.noteAnswer();
    if (found) await health.proveOperation(readLine);
    return found || !(await health.isProven(readLine));
  } catch (error) {
    if (!(error instanceof WarehouseError) || (await health.endsRun(error))) throw error;
    warn(
      context,
      `${stream.name}: ${error.message}; the next reconciliation checks its line again`,
    );
    return true;
  }
}
