import { type LookUpContext, type LookUpResult, toNoAnswer } from '../../kind.ts';
import { findTargetIds, readSentTarget } from '../../sql/renames.ts';
import { listByNumbers, readOrderById, readOrders } from './find-order.ts';
import { describeLoss, describeLostMembers, findLoss, listMembers } from './order-loss.ts';

/** An `order.rename` row with unknown outcome. */
interface RenameRow {
  readonly id: number;
  /** The former number. */
  readonly reference: string;
  readonly payloadRead: { readonly externalOrderNumber: string };
}

/**
 * Looks up renames: reads each order by the id that was stored before the request. A row without a
 * stored id was not sent by this database. Its order is the one that the tables or earlier rows of
 * its lane name; otherwise it is searched by both numbers.
 */
export async function findRenamedOrders(
  rows: readonly RenameRow[],
  context: LookUpContext,
): Promise<ReadonlyMap<number, LookUpResult>> {
  const targetIds = await findTargetIds(
    context.db,
    rows.map(({ id }) => id),
  );
  const found = new Map<number, LookUpResult>();
  let failed: LookUpResult | undefined;
  for (const row of rows) {
    // If the service does not answer, the other rows are not looked up now. An unreadable answer
    // concerns its order.
    const seen = failed ?? (await lookUpRow(row, targetIds.get(row.id), context));
    found.set(row.id, seen);
    if (seen.seen === 'no answer' && seen.cause !== undefined && seen.cause.code !== 'undecodable')
      failed = seen;
  }
  return found;
}

async function lookUpRow(
  row: RenameRow,
  targetId: number | undefined,
  context: LookUpContext,
): Promise<LookUpResult> {
  try {
    return targetId === undefined
      ? await searchBothNumbers(row, context)
      : await readTarget(row, targetId, context);
  } catch (error) {
    return toNoAnswer(error);
  }
}

async function readTarget(
  { id: rowId, reference, payloadRead: { externalOrderNumber: wanted } }: RenameRow,
  id: number,
  context: LookUpContext,
): Promise<LookUpResult> {
  const found = await readOrderById(context, id);
  if (found === null)
    return { seen: 'several', why: `the service does not have the order ${id} any more` };
  const number = found.order.external_order_number;
  if (number === wanted) {
    const present = new Map(
      (await readSentTarget(context.db, rowId))?.present.map((path) => [path, '']),
    );
    const { gone } = findLoss(present, listMembers(found.resource), [
      'externalOrderNumber',
      'preferredShippingDate',
    ]);
    const loss = describeLoss({ gone, changed: [] });
    const lost = loss === null ? {} : { lost: describeLostMembers(loss) };
    return { seen: 'there', resource: found.resource, escaped: found.escaped, ...lost };
  }
  if (number === reference) return { seen: 'absent', basis: 'read', why: stillFormerNumber };
  return {
    seen: 'several',
    why: `the order ${id} has the number ${number}, neither ${reference} nor ${wanted}`,
  };
}

const stillFormerNumber = 'the order still has its former number; looked up again';

async function searchBothNumbers(
  { reference, payloadRead: { externalOrderNumber: wanted } }: RenameRow,
  { warehouse, signal }: LookUpContext,
): Promise<LookUpResult> {
  const isThere = async (number: string) => {
    const pages = await listByNumbers(warehouse, [number], signal);
    return pages.flatMap(readOrders).some(({ order }) => order.external_order_number === number);
  };
  if (!(await isThere(wanted)) || (await isThere(reference)))
    return { seen: 'absent', basis: 'list', why: stillFormerNumber };
  return {
    seen: 'several',
    why: `an order has the number ${wanted}, but it is not known whether it was ${reference}`,
  };
}
