import { randomBytes } from 'node:crypto';
import type { Operation } from '../../../config/operations.ts';
import { CodedError, describeError, WarehouseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { removeQuotes } from '../../core/quote.ts';
import { addDays, toUtcDay } from '../../core/time.ts';
import type { OrderPayload } from '../../payloads/order.ts';
import { buildOrderDocument } from '../../sync/push/kinds/order/order-payload.ts';
import {
  describeAnswer,
  isDone,
  type JsonObject,
  readAttribute,
  readData,
  readEnvelope,
  readIncluded,
  readNumber,
  type Service,
} from './service.ts';

/** A resource that the service took, with what belongs to it, as it is read back. */
export interface ReadBack {
  readonly id: number;
  readonly resource: JsonObject;
  readonly included: readonly JsonObject[];
}

export const selectType = ({ included }: ReadBack, type: string) => included.filter((one) => one.type === type);

/** Returns the number of items of an order that are not cancelled. */
export const countOpen = (order: ReadBack) =>
  selectType(order, 'orderItem').filter((item) => readAttribute(item, 'quantity') !== 0).length;

/** The assumptions about the body of an order that the service may not share. */
export type OrderOptions = Pick<Operation, 'included' | 'billingAddress'>;

/** The outcome of an order: it was taken, or refused with an answer. */
export type Placement = { readonly order: ReadBack } | { readonly refused: string };

interface AskedOrder {
  readonly number: string;
  state: number | 'refused' | 'unknown';
}

/** Days until the preferred shipping date of our orders, and until the goods of our slips. */
const leadDays = 60;
const include = 'orderItems,deliveryAddress,billingAddress,pickUpPoint';

/** Returns a number or reference that only `service verify` uses. */
export const makeReference = () => `VERIFY-${randomBytes(5).toString('hex')}`;

/** What is placed at the service to check what it takes. Orders are on hold, and are cancelled at the end. */
export class WriteSession {
  readonly service: Service;
  readonly #givenSku: string | null;
  /** The orders that were asked for, each with its id, or whether it was refused or is not known. */
  readonly #asked: AskedOrder[] = [];
  /** Undoes each other write, and returns in words what remains; null: nothing. */
  readonly #undo: (readonly [name: string, undo: () => Promise<string | null>])[] = [];

  /** @param sku article of the orders; null: one that the client's orders name */
  constructor(service: Service, sku: string | null) {
    this.service = service;
    this.#givenSku = sku;
  }

  /** Returns the article of what is placed. @throws CodedError if the client's orders name none */
  async findSku(): Promise<string> {
    const sku = this.#givenSku ?? (await this.service.findSku());
    if (sku === null) throw new CodedError('usage', 'no order or shipment names an article; name one with --sku');
    return sku;
  }

  /** Returns a day that is so far away that nothing is done until then. */
  async findLateDay(): Promise<string> {
    const { dateMs } = await this.service.call('common.status.get');
    return addDays(toUtcDay(dateMs ?? Date.now()), leadDays);
  }

  /** Returns the payload of an order on hold. @throws CodedError if there is no article or no order type */
  async makePayload(): Promise<{ payload: OrderPayload; orderTypeId: number }> {
    const line = { sku: await this.findSku(), quantity: 1 };
    const orderTypeId = readNumber((await this.readList('orderTypes'))[0]?.id);
    if (orderTypeId === null) throw new CodedError('undecodable', 'the service lists have no order types');
    const deliveryAddress = {
      lastName: 'Verify Do Not Ship',
      street1: 'Keizersgracht',
      houseNumber: '1',
      postcode: '1015CJ',
      city: 'Amsterdam',
      countryCode: 'NL',
    };
    const fixed = { locale: 'nl-NL', reference: 'verify', onHold: true, items: [line, line], deliveryAddress };
    const preferredShippingDate = await this.findLateDay();
    return { payload: { externalOrderNumber: makeReference(), ...fixed, preferredShippingDate }, orderTypeId };
  }

  /** Places one more order, with a payload that `change` may change. */
  async placeAnother(options: OrderOptions, change = (payload: OrderPayload) => payload): Promise<Placement> {
    const { payload, orderTypeId } = await this.makePayload();
    return this.place(change(payload), orderTypeId, options);
  }

  /** Returns the entries of a service list. */
  async readList(list: string): Promise<JsonObject[]> {
    const lists = readEnvelope(await this.service.call('common.settings.get'))?.result;
    return isObject(lists) && Array.isArray(lists[list]) ? lists[list].filter(isObject) : [];
  }

  /** Places an order once. If its outcome is unknown, it is looked up by its number, as the outbox does. */
  async place(payload: OrderPayload, orderTypeId: number, options: OrderOptions): Promise<Placement> {
    const json = buildOrderDocument(payload, { orderTypeId, shippingMethodId: null }, options);
    const { externalOrderNumber: number } = payload;
    const asked: AskedOrder = { number, state: 'unknown' };
    this.#asked.push(asked);
    const answer = await this.service.call('v3.orders.create', { json }).catch((error: unknown) => {
      if (error instanceof WarehouseError) return error;
      throw error;
    });
    const isAnswer = !(answer instanceof WarehouseError);
    if (isAnswer && !isDone(answer)) {
      asked.state = 'refused';
      return { refused: describeAnswer(answer) };
    }
    const id = (isAnswer ? readNumber((readData(answer) ?? [])[0]?.id) : null) ?? (await this.find(number));
    if (id !== null) {
      asked.state = id;
      return { order: await this.read(id) };
    }
    if (isAnswer) return { refused: `${describeAnswer(answer)}, but no order has the number` };
    if (answer.status !== undefined) return { refused: `${answer.status}, and no order has the number` };
    throw answer;
  }

  /** Returns the id of the order with a number; null if there is none. */
  async find(number: string): Promise<number | null> {
    const query = { 'filter[externalOrderNumber][in]': [number] };
    const rows = readData(await this.service.call('v3.orders.list', { query })) ?? [];
    return readNumber(rows.find((row) => readAttribute(row, 'externalOrderNumber') === number)?.id);
  }

  /** Reads an order with its items, addresses and pick-up point. */
  async read(id: number): Promise<ReadBack> {
    const answer = await this.service.call('v3.orders.get', { path: { id }, query: { include } });
    const [resource] = readData(answer) ?? [];
    if (resource === undefined)
      throw new CodedError('undecodable', `an order that was placed cannot be read: ${describeAnswer(answer)}`);
    return { id, resource, included: Object.values(readIncluded(answer)).flat() };
  }

  /** Remembers how to undo a write other than an order, or how to say that it stays. */
  undoAtEnd(name: string, undo: () => Promise<string | null>): void {
    this.#undo.push([name, undo]);
  }

  /** Cancels every order that was placed, and undoes the other writes. Returns what remains at the service, in words. */
  async cleanUp(): Promise<string[]> {
    const left: string[] = [];
    const clean = async (name: string, work: () => Promise<string | null>) => {
      const words = await work().catch((error: unknown) => {
        if (!(error instanceof CodedError)) throw error;
        return `${name} may exist and could not be cancelled (${removeQuotes(describeError(error))}); cancel it by hand`;
      });
      if (words !== null) left.push(words);
    };
    // Each write is undone once.
    for (const { number, state } of this.#asked.splice(0))
      if (state !== 'refused') await clean(number, () => this.#cancel(number, state === 'unknown' ? null : state));
    for (const [name, undo] of this.#undo.splice(0)) await clean(name, undo);
    return left;
  }

  async #cancel(number: string, known: number | null): Promise<string> {
    const id = known ?? (await this.find(number));
    if (id === null) return `${number}: no answer said whether it exists; it is not listed now; look again later`;
    const answer = await this.service.call('v3.orders.cancel', { path: { id } });
    const open = countOpen(await this.read(id));
    if (open === 0) return `${number} (id ${id}) is cancelled; the service keeps it in its list`;
    return `${number} (id ${id}) still has ${open} open items, as DELETE answered ${describeAnswer(answer)}; cancel it by hand`;
  }
}
