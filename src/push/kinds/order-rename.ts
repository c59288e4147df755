import { z } from 'zod';
import { orders } from '../../pull/streams/orders.ts';
import { readId } from '../../service/decoding/jsonapi.ts';
import {
  defineKind,
  type FoundResource,
  type LookUpContext,
  type LookUpResult,
  lookUpEach,
  PayloadError,
  type PushContext,
  type PushResult,
  problemAt,
} from '../kind.ts';
import { findTargetId, findUserOfNumber, readSentTarget } from '../sql/renames.ts';
import { orderNumber } from './order-payload.ts';
import {
  type AnsweredOrder,
  changeNumber,
  describeLoss,
  describeLostMembers,
  type FoundOrder,
  findLoss,
  listByNumbers,
  listMembers,
  makeRenameAwaited,
  readOrderById,
  readOrders,
  searchOrder,
} from './order-state.ts';

const schema = z.strictObject({
  externalOrderNumber: orderNumber.meta({
    description: 'the new number; the reference of the row is the present one',
  }),
});
type OrderRename = z.infer<typeof schema>;

/**
 * Changes the number of an order (docs/interface.md, 7.1 Fields and 7.7 Update). The reference of
 * the row is the present number. After a lost answer, the order is read by its id, because it has
 * one number or the other.
 */
export const orderRename = defineKind<OrderRename, RenamedOrder>({
  name: 'order.rename',
  schema,
  operation: 'v3.orders.update',
  notFoundMeansRoute: true,
  push: renameOrder,
  unknown: {
    do: 'look up',
    lookUp: {
      stream: orders,
      find: (rows, context) => lookUpEach(rows, (row) => findRenamedOrder(row, context)),
      // The order that is found has the new number, which is all that the row asks for.
      conclude: ({ resource, lost }, { externalOrderNumber }, isOthers) =>
        lost === null || isOthers
          ? { result: { orderId: readId(resource), externalOrderNumber } }
          : { status: 'dead', error: lost },
      whenAbsent: 'resend',
      doubtsRefusal: false,
      byTarget: true,
    },
  },
});

async function renameOrder(
  { externalOrderNumber: number }: OrderRename,
  context: PushContext,
): Promise<PushResult> {
  const found = await findOrderToRename(number, context);
  if (found.order.external_order_number === number) return toPushResult(found, null);
  await assertNumberUnused(number, context);
  const renamed = await changeNumber(context, found, number);
  return toPushResult(renamed, renamed.note);
}

function toPushResult(renamed: AnsweredOrder, note: string | null): PushResult {
  const { id: orderId, external_order_number: externalOrderNumber } = renamed.order;
  const result = { orderId, externalOrderNumber, ...(note === null ? {} : { note }) };
  return { result, reading: { stream: orders, ...renamed } };
}

/**
 * Finds the order by its present number. If we know its id, an order that already has the new
 * number is found too.
 * @throws NotFoundError if the service has no order with the present number
 */
async function findOrderToRename(number: string, context: PushContext): Promise<FoundOrder> {
  const { id, reference } = context.row;
  const targetId = await findTargetId(context.db, id);
  const known = targetId === null ? null : await readOrderById(context, targetId);
  const knownNumber = known?.order.external_order_number;
  if (known !== null && (knownNumber === reference || knownNumber === number)) return known;
  return searchOrder(context);
}

/**
 * Checks that no unfinished row of the outbox uses the new number.
 * @throws PostponedError if an earlier rename will free the number
 * @throws PayloadError if a row makes an order with the number
 */
async function assertNumberUnused(number: string, context: PushContext): Promise<void> {
  const user = await findUserOfNumber(context.db, context.row, number);
  if (user === null) return;
  if (user.kind === 'order.rename') throw makeRenameAwaited(user, `frees the number ${number}`);
  const words =
    `${number} is the number of row ${user.id} (${user.kind}), ` +
    `which is ${user.status}; choose another number, or cancel that row and retry this one`;
  throw new PayloadError([problemAt(['externalOrderNumber'], words)]);
}

/** An order that has the new number, and what the attempt lost of it, in words. */
interface RenamedOrder extends FoundResource {
  readonly lost: string | null;
}

/** An `order.rename` row with unknown outcome. */
interface RenameRow {
  readonly id: number;
  /** The former number. */
  readonly reference: string;
  readonly payloadRead: { readonly externalOrderNumber: string };
}

/**
 * Looks up a rename: reads the order by the id that was stored before the request. A row without a
 * stored id was not sent by this database. Its order is the one that the tables or earlier rows of
 * its lane name; otherwise it is searched by both numbers.
 */
async function findRenamedOrder(
  row: RenameRow,
  context: LookUpContext,
): Promise<LookUpResult<RenamedOrder>> {
  const { id: rowId, reference } = row;
  const { externalOrderNumber: wanted } = row.payloadRead;
  const id = await findTargetId(context.db, rowId);
  if (id === null) return searchBothNumbers(row, context);

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
    const lost = loss === null ? null : describeLostMembers(loss);
    return { seen: 'there', resource: found.resource, escaped: found.escaped, lost };
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
): Promise<LookUpResult<RenamedOrder>> {
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
