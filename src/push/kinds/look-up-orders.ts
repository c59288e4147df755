import { makeUndecodableError, type WarehouseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { quote } from '../../core/quote.ts';
import { addDays, minuteMs, toUtcDay } from '../../core/time.ts';
import { workOnHalves } from '../../core/work-on-halves.ts';
import { listPages } from '../../pull/walk.ts';
import { toDigits } from '../../service/decoding/fields.ts';
import { readId } from '../../service/decoding/jsonapi.ts';
import { encodeValue } from '../../service/transport/query.ts';
import { longestListLagMs } from '../judge-outcome.ts';
import { type LookUpContext, type LookUpResult, lookUpEach, toNoAnswer } from '../kind.ts';
import {
  findLastOrderSince,
  findLaterOrders,
  findStoredOrders,
  type LaterOrder,
  type StoredOrder,
  type UnknownRow,
} from '../sql/look-ups.ts';
import { findRenames } from '../sql/renames.ts';
import { type AnsweredOrder, listByNumbers, readOrderById, readOrders } from './order-state.ts';

/** Maximum number of orders in one look-up: the size of a page (docs/interface.md, 5.1 Values). */
const maxNumbers = 100;
/** Maximum number of bytes in the URL of one look-up. */
const maxUrlBytes = 6_000;
/** Number of these bytes that the other parts of the query take. */
const otherQueryBytes = 400;

/**
 * Number of unusable answers in a row after which no batch is divided any more. One unusable order
 * is found with ten at most; after more, the cause is the service, not an order.
 */
const maxUnusableInRow = 20;

/** A list of the days in question with more pages than this counts as unreadable. */
const maxWalkPages = 1_000;
/** Number of look-ups with an unclear answer after which the days in question are walked. */
const maxUnclearLookUps = 3;

/** The members of a row that a look-up needs. */
export interface RowToLookUp
  extends Pick<
    UnknownRow,
    | 'id'
    | 'reference'
    | 'absences'
    | 'lookups'
    | 'sinceWrittenMs'
    | 'sinceFirstSentMs'
    | 'refusal'
    | 'refusedAs'
  > {
  readonly payloadRead: { readonly orderedOn?: string | null | undefined };
}

/**
 * A row with an order that the service accepted after the row's last attempt. A list that shows it
 * is new enough.
 */
interface SearchedRow extends RowToLookUp {
  readonly later?: LaterOrder | undefined;
}

/**
 * Looks up many orders. Searches them by their numbers, which are compared exactly, even if the
 * service's filter does not. A filter may be unable to find certain numbers, so an order that it
 * does not find is absent only if our tables do not show it either, nor the list of all orders of
 * the days in question. Such a list is read before an absence is believed, and after a refusal
 * which may say that the number is taken. Lists lag, so an order that the service accepted later is
 * asked for beside each: a list that shows that one is newer than the attempt.
 *
 * An order that an `order.rename` gave its number was not made by the row: a person decides, unless
 * the service refused the row. A list that is behind may still show the former number of an order.
 */
export async function findOrders(
  unknown: readonly RowToLookUp[],
  context: LookUpContext,
): Promise<Map<number, LookUpResult>> {
  const rows = await addLaterOrders(unknown, context);
  const results = await searchNumbers(rows, context);
  const findMissing = () =>
    rows.filter(({ id }) => ['absent', 'unclear'].includes(results.get(id)?.seen ?? ''));
  const stored = await findStoredOrders(
    context.db,
    rows.map(({ id }) => id),
  );

  await readCandidates(listStored(findMissing(), stored), results, context);
  await searchDays(
    findMissing().filter((row) => needsWalk(row, results.get(row.id))),
    results,
    context,
  );

  for (const { rowId, orderId, isOlder, otherRow } of stored) {
    const result = results.get(rowId);
    if (isOlder && result?.seen === 'there' && readId(result.resource) === orderId)
      results.set(rowId, { ...result, isOlder, otherRow });
  }

  return results;
}

/** The results of a look-up, by row id. */
type Results = Map<number, LookUpResult>;

/** Adds a later order to each row whose absence depends on how old the list is. */
async function addLaterOrders(
  rows: readonly RowToLookUp[],
  { db }: LookUpContext,
): Promise<SearchedRow[]> {
  const isInDoubt = ({ sinceWrittenMs, refusedAs }: RowToLookUp) =>
    sinceWrittenMs !== null &&
    sinceWrittenMs >= minuteMs &&
    (refusedAs !== null || sinceWrittenMs < longestListLagMs);
  const doubted = rows.filter(isInDoubt).map(({ id }) => id);
  if (doubted.length === 0) return [...rows];

  const later = new Map((await findLaterOrders(db, doubted)).map((order) => [order.rowId, order]));
  return rows.map((row) => ({ ...row, later: later.get(row.id) }));
}

/** Searches orders by their numbers, in batches. */
async function searchNumbers(
  rows: readonly SearchedRow[],
  context: LookUpContext,
): Promise<Results> {
  const results: Results = new Map();
  const search: NumberSearch = { context, unusableInRow: 0 };
  let failed: LookUpResult | undefined;
  for (const batch of batchRows(rows)) {
    // If the service refuses the credentials or asks to wait, the other batches are not sent.
    const found = failed ? giveAll(batch, failed) : await lookUpBatch(batch, search);
    for (const [id, result] of found) {
      results.set(id, result);
      const cause = result.seen === 'no answer' ? result.cause : undefined;
      if (cause !== undefined && concernsAllNumbers(cause)) failed = result;
    }
  }

  return results;
}

/**
 * Returns true if a row that was not found is about to be believed absent, or may be the order that
 * has its number.
 */
function needsWalk(row: RowToLookUp, result: LookUpResult | undefined): boolean {
  // A filter finds plain numbers: if it does not find the one of a row that was only refused, no
  // other order has it.
  if (row.refusedAs !== null)
    return (
      row.refusedAs === 'taken' || row.sinceWrittenMs !== null || !plainNumber.test(row.reference)
    );
  return row.absences > 0 || (result?.seen === 'unclear' && row.lookups >= maxUnclearLookUps);
}

/** A number that every filter finds if the list has the order. */
const plainNumber = /^[\w.-]+$/;

/** Gives the same result to all rows. */
const giveAll = (rows: readonly SearchedRow[], result: LookUpResult): Results =>
  new Map(rows.map(({ id }) => [id, result]));

/** A row with an order that may be the one of the row. */
interface Candidate extends SearchedRow {
  readonly orderId: number;
  readonly listedAgoMs?: number | undefined;
}

/** Lists the orders that our tables show under the numbers of these rows. */
const listStored = (rows: readonly SearchedRow[], stored: readonly StoredOrder[]): Candidate[] =>
  rows.flatMap((row) =>
    stored
      .filter(({ rowId }) => rowId === row.id)
      .map(({ orderId, storedAgoMs }) => ({
        ...row,
        orderId,
        // A poll has shown it. If the filter cannot find a number, that says nothing about how old
        // its list is.
        listedAgoMs: plainNumber.test(row.reference) ? storedAgoMs : undefined,
      })),
  );

/** Reads orders by id, and sets the result of each row whose order still has the row's number. */
async function readCandidates(
  candidates: readonly Candidate[],
  results: Results,
  context: LookUpContext,
): Promise<void> {
  const read = await lookUpEach(candidates, (candidate) => readCandidate(candidate, context));
  for (const [id, result] of read) results.set(id, result);
}

/** Returns the result of a row; undefined if the order has another number now, or is gone. */
async function readCandidate(
  candidate: Candidate,
  context: LookUpContext,
): Promise<LookUpResult | undefined> {
  const order = await readOrderById(context, candidate.orderId);
  if (order?.order.external_order_number !== candidate.reference) return undefined;
  return (await toResults([candidate], [order], context, candidate.listedAgoMs)).get(candidate.id);
}

/** A range of days, both exclusive. */
interface DayRange {
  readonly after: string;
  readonly before?: string;
  /** The rows that are absent only if this range lacks them. */
  readonly rows: readonly SearchedRow[];
}

/**
 * Returns a number in a form in which a service may store or compare it: without case, blanks, and
 * differences of Unicode.
 */
const toComparedForm = (number: string) =>
  number.normalize('NFKC').replaceAll(/\s/g, '').toLowerCase();

const describeOtherForm = (orderId: number, number: string) =>
  `order ${orderId} has the number ${quote(number)}, which differs only in case or blanks`;

/**
 * Walks the list of all orders of the days on which these rows may have been carried out. An order
 * that is found is read by its id. A row that is not found is absent: a list of days finds orders
 * whatever their numbers are. If the list has the number in another form, the service may have
 * stored it so, and a person decides. A range that cannot be read concerns only its rows.
 */
async function searchDays(
  rows: readonly SearchedRow[],
  results: Results,
  context: LookUpContext,
): Promise<void> {
  if (rows.length === 0) return;
  const { orders, failures } = await listDays(rows, context);
  const wanted = new Map(rows.map((row) => [row.reference, row]));
  const byForm = Map.groupBy(rows, ({ reference }) => toComparedForm(reference));
  const similar = new Map<number, string>();
  const candidates: Candidate[] = [];

  for (const [orderId, number] of orders) {
    if (number === null) continue;
    const row = wanted.get(number);
    if (row !== undefined) candidates.push({ ...row, orderId });
    const others = row === undefined ? byForm.get(toComparedForm(number)) : undefined;
    for (const other of others ?? []) similar.set(other.id, describeOtherForm(orderId, number));
  }

  for (const { id, later } of rows) {
    const basis = later !== undefined && orders.has(later.orderId) ? 'newer list' : 'list';
    const why = similar.get(id);
    const result: LookUpResult =
      why === undefined ? { seen: 'absent', basis } : { seen: 'several', why };
    results.set(id, failures.get(id) ?? result);
  }
  await readCandidates(candidates, results, context);
}

/** Maximum characters of a number that is kept. No row asks for a longer one. */
const maxNumberLength = 1_000;

/**
 * Lists the orders of the days on which these rows may have been carried out: their numbers by id.
 * `failures` has the rows with a range that cannot be read.
 */
async function listDays(
  rows: readonly SearchedRow[],
  context: LookUpContext,
): Promise<{ orders: Map<number, string | null>; failures: Results }> {
  const orders = new Map<number, string | null>();
  const failures: Results = new Map();
  const fail = (failed: readonly SearchedRow[], error: unknown) => {
    const { why, ...result } = toNoAnswer(error);
    const words = `not found by its number, which proves nothing yet; ${why}`;
    for (const { id } of failed) failures.set(id, { ...result, why: words });
    return result.cause !== undefined && concernsAllNumbers(result.cause);
  };

  try {
    const nowMs = (await context.warehouse.readClock(context.signal)) ?? Date.now();
    for (const range of listRanges(rows, nowMs)) {
      const ids = new Set<number>();
      try {
        for await (const { id, number } of walkRange(range, context)) {
          ids.add(id);
          orders.set(id, (number?.length ?? 0) > maxNumberLength ? null : number);
        }
        await assertWhole(range, ids, context);
      } catch (error) {
        if (fail(range.rows, error)) throw error;
      }
    }
  } catch (error) {
    fail(rows, error);
  }
  return { orders, failures };
}

/**
 * Returns the days since the first send, and those of the rows' `orderedOn`.
 * @param nowMs the service's clock
 */
function listRanges(rows: readonly SearchedRow[], nowMs: number): DayRange[] {
  const firstSentMs =
    nowMs - rows.reduce((longest, { sinceFirstSentMs }) => Math.max(longest, sinceFirstSentMs), 0);
  // One day more, because the day of the service may be another.
  const after = addDays(toUtcDay(firstSentMs), -2);
  const byDay = Map.groupBy(rows, ({ payloadRead: { orderedOn } }) => orderedOn ?? '');
  const ordered = [...byDay].filter(([day]) => day !== '' && day <= after);

  return [
    { after, rows },
    ...ordered.map(([day, ofDay]) => ({
      after: addDays(day, -1),
      before: addDays(day, 1),
      rows: ofDay,
    })),
  ];
}

/** An order in the list of its days. */
interface ListedOrder {
  readonly id: number;
  /** Null: it has no number, so no row asked for it. */
  readonly number: string | null;
}

/**
 * @throws WarehouseError if the list cannot be read to its end, or if an order in it has no
 * readable id or number
 */
async function* walkRange(
  { after, before }: DayRange,
  { warehouse, signal }: LookUpContext,
): AsyncGenerator<ListedOrder, void, void> {
  const filter = {
    'page[size]': 100,
    'filter[orderedOn][gt]': after,
    ...(before === undefined ? {} : { 'filter[orderedOn][lt]': before }),
  };

  const list = listPages(warehouse, {
    operation: 'v3.orders.list',
    filter,
    maxPages: maxWalkPages,
    signal,
  });

  for await (const page of list)
    for (const resource of page.data) {
      const id = readId(resource);
      const attributes =
        isObject(resource) && isObject(resource.attributes) ? resource.attributes : {};
      const number = toDigits(attributes.externalOrderNumber ?? null);
      if (id === null || (number !== null && typeof number !== 'string'))
        throw makeUndecodableError('an order in the list of its days has no readable number');
      yield { id, number };
    }
}

/** @throws WarehouseError if the list lacks an order that our tables and the service have */
async function assertWhole(
  { after, before }: DayRange,
  ids: ReadonlySet<number>,
  context: LookUpContext,
): Promise<void> {
  if (before !== undefined) return;
  const known = await findLastOrderSince(context.db, context.client, addDays(after, 1));
  if (known === null || ids.has(known)) return;
  const order = await readOrderById(context, known);
  if (order === null || (order.order.ordered_on ?? '') <= after) return;
  throw makeUndecodableError(`the list of the orders since ${after} lacks order ${known}`);
}

/**
 * Returns true if a failure concerns all numbers. An answer that cannot be read, or does not come,
 * may be due to one order.
 */
const concernsAllNumbers = ({ code, status, retryAfterMs }: WarehouseError) =>
  retryAfterMs !== undefined ||
  status === 401 ||
  status === 429 ||
  code === 'credentials_refused' ||
  code === 'connect_failed';

/**
 * Divides rows into batches whose numbers fit into a URL. A number with a comma gets a batch for
 * itself, because the service might split the decoded value into two numbers.
 */
export function batchRows<
  T extends Pick<SearchedRow, 'reference'> & {
    readonly later?: Pick<LaterOrder, 'number'> | undefined;
  },
>(rows: readonly T[]): T[][] {
  const alone = rows.filter(({ reference }) => reference.includes(',')).map((row) => [row]);
  const batches: T[][] = [];
  let numbers = new Set<string>();
  let bytes = otherQueryBytes;
  for (const row of rows.filter(({ reference }) => !reference.includes(','))) {
    const added = listAskedNumbers(row).filter((number) => !numbers.has(number));
    const addedBytes = added.reduce((sum, number) => sum + encodeValue(number).length + 1, 0);
    if (
      batches.length === 0 ||
      bytes + addedBytes > maxUrlBytes ||
      numbers.size + added.length > maxNumbers
    ) {
      batches.push([]);
      numbers = new Set();
      bytes = otherQueryBytes;
    }
    batches.at(-1)?.push(row);
    for (const number of listAskedNumbers(row)) numbers.add(number);
    bytes += addedBytes;
  }
  return [...batches, ...alone];
}

/** Returns the numbers that the look-up of a row asks for: its own, and that of a later order. */
const listAskedNumbers = ({
  reference,
  later,
}: {
  reference: string;
  later?: { number: string } | undefined;
}) => (later === undefined ? [reference] : [reference, later.number]);

/** A search of many numbers. */
interface NumberSearch {
  readonly context: LookUpContext;
  /** Number of answers since the last usable one. */
  unusableInRow: number;
}

/**
 * Looks up one batch. If the answer has a number that was not asked for, or an order that cannot be
 * read, it proves nothing: then looks up the two halves separately, to find the row that causes it.
 */
async function lookUpBatch(rows: readonly SearchedRow[], search: NumberSearch): Promise<Results> {
  const { context } = search;
  const asked = new Set(rows.flatMap(listAskedNumbers));
  let orders: AnsweredOrder[];
  try {
    const pages = await listByNumbers(context.warehouse, [...asked], context.signal);
    orders = pages.flatMap(readOrders);
  } catch (error) {
    const failed = toNoAnswer(error);
    if (failed.cause?.code !== 'undecodable') return giveAll(rows, failed);
    if (mayDivide(rows, search)) return lookUpHalves(rows, search);

    // It may be the later order that cannot be read.
    const [row, ...others] = rows;
    if (others.length > 0 || row?.later === undefined) return giveAll(rows, failed);
    return lookUpBatch([{ ...row, later: undefined }], search);
  }

  const numbers = orders.map(({ order }) => order.external_order_number);
  if (numbers.every((number) => number !== null && asked.has(number))) {
    search.unusableInRow = 0;
    return toResults(rows, orders, context, 0);
  }

  if (mayDivide(rows, search)) return lookUpHalves(rows, search);
  const why = 'the answer to the look-up has another order number; the look-up is tried again';
  return giveAll(rows, { seen: 'unclear', why });
}

/** Counts an unusable answer. Returns whether the halves of its batch are worth looking up. */
function mayDivide({ length }: readonly SearchedRow[], search: NumberSearch): boolean {
  search.unusableInRow++;
  return length > 1 && search.unusableInRow < maxUnusableInRow;
}

async function lookUpHalves(rows: readonly SearchedRow[], search: NumberSearch): Promise<Results> {
  const halves = await workOnHalves(rows, (half) => lookUpBatch(half, search));
  return new Map(halves.flatMap((half) => [...half]));
}

/**
 * Returns the result for each row: the order that has its number, unless an `order.rename` gave it
 * or took it away.
 * @param listedAgoMs how long ago a list showed these orders, as far as is known
 */
async function toResults(
  rows: readonly SearchedRow[],
  orders: readonly AnsweredOrder[],
  { db, client }: LookUpContext,
  listedAgoMs: number | undefined,
): Promise<Results> {
  const byNumber = new Map(orders.map((order) => [order.order.external_order_number, order]));
  const orderIds = orders.map(({ order }) => order.id);
  const renames = orderIds.length === 0 ? [] : await findRenames(db, client, orderIds);
  const listed = listedAgoMs === undefined ? {} : { listedAgoMs };

  const toResult = ({ reference, later }: SearchedRow): LookUpResult => {
    const found = byNumber.get(reference);
    const isNewer = later !== undefined && byNumber.get(later.number)?.order.id === later.orderId;
    if (found === undefined) return { seen: 'absent', basis: isNewer ? 'newer list' : 'list' };

    const ofOrder = renames.filter(({ orderId }) => orderId === found.order.id);
    const last = ofOrder.findLast(({ status }) => status === 'done');
    if (last?.from === reference) {
      const why =
        `the list still has order ${last.orderId} as ${reference}, ` +
        `which was renamed to ${last.to}; looked up again`;
      return { seen: 'unclear', why };
    }
    if (ofOrder.some(({ to }) => to === reference)) {
      const why = `the number ${reference} belongs to another order, which order.rename gave it`;
      return { seen: 'several', why };
    }

    const { resource, escaped } = found;
    return { seen: 'there', resource, escaped, ...listed };
  };

  return new Map(rows.map((row) => [row.id, toResult(row)]));
}
