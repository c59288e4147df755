/**
 * The kinds that concern a return. An announced return is named by its id, or by a reference that
 * no other one has.
 */

import { z } from 'zod';
import type { Operation, Operations } from '../../../config/operations.ts';
import { makeUndecodableError, rewordError, WarehouseError } from '../../core/errors.ts';
import { isObject, parseExact } from '../../core/json.ts';
import { hasAuthorization } from '../../pull/sql/authorization-rows.ts';
import {
  authorization,
  authorizationItem,
  authorizations,
} from '../../pull/streams/authorizations.ts';
import { shipmentItem, shipments } from '../../pull/streams/shipments.ts';
import { decodeEnvelope } from '../../service/decoding/envelope.ts';
import type { RowOf } from '../../service/decoding/fields.ts';
import {
  addIncluded,
  type Document,
  decodeDocument,
  indexIncluded,
  type Resource,
  readId,
} from '../../service/decoding/jsonapi.ts';
import { encodeQuery } from '../../service/transport/query.ts';
import {
  type CheckFacts,
  defineKind,
  isEmpty,
  type JsonObject,
  maxProblems,
  NotFoundError,
  type PayloadProblem,
  type PushContext,
  type PushResult,
  readAfterChange,
  readAnswered,
  readIncluded,
  saysNothing,
} from '../kind.ts';
import {
  anyMembers,
  codeOf,
  idNumber,
  idOf,
  linkTo,
  makeBody,
  optionalText,
  personalText,
  pickGiven,
  quantity,
  requiredText,
  requireUnless,
} from '../payload.ts';
import { type CodedMember, findCodeProblems, findNamedId } from '../setting-codes.ts';

/**
 * Announces a return (docs/interface.md, 11.4 Operations). No list has it, so it cannot be looked
 * up.
 */
export const returnCreate = (operations: Operations) =>
  defineKind<ReturnPayload>({
    name: 'return.create',
    schema: makeReturnPayload(creation, operations),
    operation: creation,
    notFoundMeansRoute: true,
    unknown: { do: 'ask operator' },
    check: findReturnProblems(creation),
    push: (payload, context) => announceReturn(payload, context, null),
  });

const makeSchema = (operations: Operations) =>
  makeReturnPayload(replacement, operations).extend({
    returnMerchandiseAuthorizationId: idNumber.nullish(),
  });

/** Replaces an announcement of a return (docs/interface.md, 11.4 Operations). */
export const returnReplace = (operations: Operations) =>
  defineKind<z.infer<ReturnType<typeof makeSchema>>>({
    name: 'return.replace',
    schema: makeSchema(operations),
    operation: replacement,
    notFoundMeansRoute: false,
    unknown: { do: 'resend' },
    check: findReturnProblems(replacement),
    push: async ({ returnMerchandiseAuthorizationId, ...payload }, context) =>
      announceReturn(payload, context, findAnnouncedId(returnMerchandiseAuthorizationId, context)),
  });

const reasonMember: CodedMember = {
  list: 'returnReasons',
  byCode: 'reason',
  byId: 'reasonId',
  required: true,
};

/** The operations whose bodies are built here. Each has its own switches. */
const creation = 'v3.returnMerchandiseAuthorizations.create';
const replacement = 'v3.returnMerchandiseAuthorizations.replace';
const itemType = 'returnMerchandiseAuthorizationItem';

/** Returns the schema of an announcement. Each operation has its own switches. */
function makeReturnPayload(
  operation: typeof creation | typeof replacement,
  operations: Operations,
) {
  const require = requireUnless(operations[operation].optional);
  const item = z.strictObject({
    shipmentItemId: idNumber,
    quantity: require('items.quantity', quantity),
    reason: requiredText.nullish().meta(codeOf('returnReasons')),
    reasonId: idNumber.nullish().meta(idOf('returnReasons', 'reason')),
    externalReference: optionalText,
    metadata: anyMembers,
  });

  return z.strictObject({
    shipmentId: idNumber,
    comments: personalText,
    metadata: anyMembers,
    items: require('items', z.array(item).min(1, 'must have at least one entry')),
  });
}
export type ReturnPayload = z.infer<ReturnType<typeof makeReturnPayload>>;

/**
 * Announces a return or replaces an announcement. Links each line to the shipment item that comes
 * back, to its product and to the return reason (docs/interface.md, 11.5 Rules).
 * @param id id of the announcement to replace; null for a new one
 * @throws PayloadError if a return reason is not known
 * @throws NotFoundError if the service does not have the shipment, or the shipment does not have an
 *   item
 * @throws WarehouseError `undecodable` if the answer cannot be read or describes another return
 */
async function announceReturn(
  payload: ReturnPayload,
  context: PushContext,
  id: number | null,
): Promise<PushResult> {
  const { shipmentId } = payload;
  const items = payload.items ?? [];
  const reasonIds: (number | null)[] = [];

  for (const [index, item] of items.entries())
    reasonIds.push(await findNamedId(item, reasonMember, context, ['items', index]));
  const products = await readShipmentItems(shipmentId, context);
  const missing = items.filter(({ shipmentItemId }) => !products.has(shipmentItemId));
  if (missing.length > 0) {
    const list = (names: readonly (number | string)[]) => names.slice(0, maxProblems).join(', ');
    const held = list([...products].map(([itemId, item]) => `${itemId} (${item.sku})`));
    const named = list(missing.map(({ shipmentItemId }) => shipmentItemId));
    throw new NotFoundError(
      `shipment ${shipmentId} has no item ${named}; its items are ${held || 'none'}`,
    );
  }

  const operation = id === null ? creation : replacement;
  const body = toReturnDocument(payload, {
    ...{ reference: context.row.reference, id, products, reasonIds },
    operation: context.operations[operation],
  });

  const answer = await context.send({ operation, ...(id !== null && { path: { id } }), body });
  const isReplaced = id !== null && isEmpty(answer);
  const document = isReplaced
    ? await readAfterChange(operation, () => readReplaced(id, context))
    : decodeDocument(operation, answer.body, 'single');

  return readAnnouncement(operation, document, id);
}

/** What a return needs besides its payload. */
interface ReturnFacts {
  readonly reference: string;
  readonly id: number | null;
  readonly products: ReadonlyMap<number, Pick<RowOf<typeof shipmentItem>, 'sku' | 'product_id'>>;
  readonly reasonIds: readonly (number | null)[];
  readonly operation: Operation;
}

/** Returns the body that announces a return or replaces an announcement. */
function toReturnDocument(
  { shipmentId, comments, metadata, items }: ReturnPayload,
  { reference, id, products, reasonIds, operation }: ReturnFacts,
): object {
  const included = (items ?? []).map(
    (
      { shipmentItemId, quantity: pieces, reason, externalReference, metadata: itemMetadata },
      index,
    ) => {
      const item = products.get(shipmentItemId);
      return {
        type: itemType,
        // A provisional id, which only links the line in this request.
        id: index + 1,
        attributes: pickGiven({
          externalReference,
          quantity: pieces,
          reasonCode: reason,
          sku: item?.sku,
          metadata: itemMetadata,
        }),
        relationships: pickGiven({
          shipmentItem: linkTo('shipmentItem', shipmentItemId),
          product: linkTo('product', item?.product_id),
          returnReason: linkTo('returnReason', reasonIds[index]),
        }),
      };
    },
  );
  const data = {
    ...(id === null ? {} : { id }),
    type: 'returnMerchandiseAuthorization',
    attributes: pickGiven({ externalReference: reference, comments, metadata }),
    relationships: {
      shipment: linkTo('shipment', shipmentId),
      returnMerchandiseAuthorizationItems: {
        data: included.map((item) => ({ id: item.id, type: itemType })),
      },
    },
  };

  return makeBody(data, included, operation);
}

/**
 * Returns the problems that the schema cannot find: return reasons that are not named once, or are
 * unknown.
 */
function findReturnProblems(operation: typeof creation | typeof replacement) {
  return ({ items }: JsonObject, _reference: unknown, { known, operations }: CheckFacts) => {
    const problems: PayloadProblem[] = [];
    const { optional = [] } = operations[operation];
    const member = { ...reasonMember, required: !optional.includes('items.reason') };

    for (const [index, item] of (Array.isArray(items) ? items : []).entries()) {
      if (problems.length > maxProblems) break;
      if (!isObject(item)) continue;
      for (const problem of findCodeProblems(item, member, known, ['items', index]))
        problems.push(problem);
    }

    return problems;
  };
}

/** Reads the items of a shipment, by id (docs/interface.md, 10.4 Operations). */
async function readShipmentItems(
  shipmentId: number,
  { warehouse, signal }: PushContext,
): Promise<Map<number, RowOf<typeof shipmentItem>>> {
  const query = encodeQuery({ include: ['shipmentItems'] });
  const document = await warehouse.get('v3.shipments.get', shipmentId, query, { signal });
  if (document === null) throw new NotFoundError(`the service has no shipment ${shipmentId}`);

  const resource = addIncluded(
    document.data[0] ?? null,
    indexIncluded(document.included),
  ) as Resource;

  return new Map(readIncluded(resource, shipmentItem).map((item) => [item.id, item]));
}

/**
 * Reads an announcement again whose replacement was answered without a body.
 * @throws WarehouseError `undecodable` if the service does not have it
 */
async function readReplaced(id: number, { warehouse, signal }: PushContext): Promise<Document> {
  const query = encodeQuery({ include: authorizations.include });
  const document = await warehouse.get('v3.returnMerchandiseAuthorizations.get', id, query, {
    signal,
  });
  if (document !== null) return document;
  throw makeUndecodableError(
    `${replacement}: the answer is empty, and the service does not have the return ${id}`,
  );
}

/**
 * Reads the answer.
 * @param replaced id of the announcement that was replaced; null if it is a new one
 */
function readAnnouncement(
  operation: typeof creation | typeof replacement,
  document: Document,
  replaced: number | null,
): PushResult {
  const isOurs = ({ id }: { readonly id: number }) => replaced === null || id === replaced;
  const { row, resource, escaped } = readAnswered(operation, document, authorization, isOurs);
  const { id, status, return_merchandise_authorization_items_ids: ids } = row;
  const lines = readIncluded(resource, authorizationItem, ids);
  const items = lines.map((line) => ({ id: line.id, shipmentItemId: line.shipment_item_id }));

  return {
    result: { returnMerchandiseAuthorizationId: id, status, items },
    reading: { stream: authorizations, resource, escaped },
  };
}

/**
 * Returns the id of the announced return: the one that the payload names, else the only one with
 * the row's reference.
 * @throws NotFoundError if no announced return, or more than one, has the reference
 */
function findAnnouncedId(named: number | null | undefined, { row }: PushContext): number {
  if (named !== undefined && named !== null) return named;
  if (row.knownCount > 1)
    throw new NotFoundError(
      `${row.knownCount} announced returns have the reference ${row.reference}; ` +
        'name one by returnMerchandiseAuthorizationId',
    );
  if (row.knownId !== null) return row.knownId;

  throw new NotFoundError(
    `no announced return with the reference ${row.reference} is known here; ` +
      'name it by returnMerchandiseAuthorizationId',
  );
}

const deletion = 'v3.returnMerchandiseAuthorizations.delete';
const reading = 'v3.returnMerchandiseAuthorizations.get';
const deletionSchema = z.strictObject({ returnMerchandiseAuthorizationId: idNumber.nullish() });

/**
 * Removes an announced return with its items (docs/interface.md, 11.4 Operations). If a read by id
 * shows that the service does not have it, but our tables do or an earlier attempt may have removed
 * it, the row is done. Both paths are assumed: until one of them is proven, a 404 of both shows
 * nothing, unless an earlier attempt may have removed it.
 */
export const returnDelete = defineKind<z.infer<typeof deletionSchema>>({
  name: 'return.delete',
  schema: deletionSchema,
  operation: deletion,
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  push: async ({ returnMerchandiseAuthorizationId }, context) => {
    const id = findAnnouncedId(returnMerchandiseAuthorizationId, context);
    const removed = { result: { id }, gone: { stream: authorizations, id } };
    try {
      const answer = await context.send({ operation: deletion, path: { id } });
      if (saysNothing(answer) || readRemovedId(answer.body) === id) return removed;
    } catch (error) {
      if (!(error instanceof WarehouseError && error.status === 404 && error.jsonBody)) throw error;
      const { row, db, operations, proven } = context;
      if (await mayBeThere(id, context))
        throw new NotFoundError(
          `the service still has the announced return ${id}, but answers 404 to its removal: ` +
            `nothing was removed. Check the path of ${deletion} (docs/assumptions.md), then retry ` +
            'this row, or have the return removed there and mark this row as done',
        );
      const isProven =
        (await proven.has(reading, operations[reading])) ||
        (await proven.has(row.kind, operations[deletion]));
      if (!isProven && !row.maybeCarriedOut)
        throw new NotFoundError(
          `the service answers 404 to the removal and to a reading of the return ${id}, ` +
            'but their paths are assumed and were never right so far. Check those of ' +
            `${deletion} and ${reading} (docs/assumptions.md), then retry this row, ` +
            'or mark it as done',
        );

      if (row.maybeCarriedOut || (await hasAuthorization(db, row.client, id))) return removed;
      throw new NotFoundError(
        `the service has no announced return ${id}, and our tables have none either; check the id`,
      );
    }
    throw makeUndecodableError(`${deletion}: the answer describes another return`);
  },
});

/**
 * Returns true if the service has a return whose removal it answered with 404. If the reading is
 * refused, the 404 counts only after an attempt that may have removed the return.
 * @throws WarehouseError if the reading fails otherwise: that removal was not carried out
 */
async function mayBeThere(id: number, { row, warehouse, signal }: PushContext): Promise<boolean> {
  try {
    return await warehouse.hasResource(reading, id, { signal });
  } catch (error) {
    if (!(error instanceof WarehouseError)) throw error;
    if (error.outcome !== 'refused') throw rewordError(error, error.message, 'not_executed');
    if (row.maybeCarriedOut) return false;
    throw error;
  }
}

/**
 * Returns the id from the answer, which is an object with the id as text; null if it cannot be
 * read.
 */
function readRemovedId(body: string): number | null {
  try {
    return readId(parseExact(body));
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

const labelling = 'v2.returnLabel.get';
const labelSchema = z.strictObject({
  shipmentId: idNumber,
  shippingMethod: requiredText.nullish().meta(codeOf('returnShippingMethods')),
  shippingMethodId: idNumber.nullish().meta(idOf('returnShippingMethods', 'shippingMethod')),
  paperless: z.boolean().nullish(),
});
type LabelRequest = z.infer<typeof labelSchema>;

const methodMember: CodedMember = {
  list: 'returnShippingMethods',
  byCode: 'shippingMethod',
  byId: 'shippingMethodId',
  required: false,
};

/**
 * Requests a return label for a shipment (docs/interface.md, 15.9 Return label). A repeated request
 * may create, and bill, another label (docs/assumptions.md). Therefore an operator decides, unless
 * the operation is declared repeatable.
 */
export const returnLabelCreate = (operations: Operations) =>
  defineKind<LabelRequest>({
    name: 'return_label.create',
    schema: labelSchema,
    operation: labelling,
    notFoundMeansRoute: false,
    unknown: { do: operations[labelling].repeatable === true ? 'resend' : 'ask operator' },
    document: { kind: 'return_label', path: [] },
    check: (payload, _reference, { known }) => findCodeProblems(payload, methodMember, known),
    push: createLabel,
  });

async function createLabel(payload: LabelRequest, context: PushContext): Promise<PushResult> {
  const { shipmentId, paperless } = payload;
  const shippingMethodId = await findNamedId(payload, methodMember, context);
  const query = encodeQuery({
    ...(shippingMethodId === null ? {} : { shippingMethodId }),
    ...(paperless ? { paperless: 'true' } : {}),
  });

  const answer = await context.send({ operation: labelling, path: { shipmentId }, query });
  const label = decodeEnvelope(labelling, answer.body);
  if (label === null)
    throw new NotFoundError(`the service made no label for shipment ${shipmentId}`);
  if (!isObject(label)) throw makeUndecodableError(`${labelling}: the answer has no label`);

  return { result: label, rereads: [{ stream: shipments, id: shipmentId }] };
}
