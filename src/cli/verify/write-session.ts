import { randomBytes } from 'node:crypto';
import type { Operation } from '../../../config/operations.ts';
import { CodedError, describeError, WarehouseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { removeQuotes } from '../../core/quote.ts';
import { addDays, toUtcDay } from '../../core/time.ts';
import type { JsonObject } from '../../push/kind.ts';
import { buildOrderDocument } from '../../push/kinds/order/new-order.ts';
import type { OrderPayload } from '../../push/kinds/order/order-payload.ts';
import {
  describeAnswer,
  isDone,
  readAttribute,
  readData,
  readEnvelope,
  readNumber,
  type Service,
  splitIncluded,
} from './service.ts';

/** A resource that the service took, with what belongs to it, as it is read back. */
export interface ReadBack {
  readonly id: number;
  readonly resource: JsonObject;
  readonly included: readonly JsonObject[];
}

export const selectType = ({ included }: ReadBack, type: string) =>
  included.filter((one) => one.type === type);

/** Returns the number of items of an order that are not cancelled. */
export const countOpen = (order: ReadBack) =>
  selectType(order, 'orderItem').filter((item) => readAttribute(item, 'quantity') !== 0).length;

/** The assumptions about the body of an order that the service may not share. */
export type OrderOptions = Pick<Operation, 'included' | 'billingAddress'>;

/** The outcome of an order: it was taken, or refused with an answer. */
export type Placement = { readonly order: ReadBack } | { readonly refused: string };

/** An order that can be placed. */
interface OrderPlan {
  readonly payload: OrderPayload;
  readonly orderTypeId: number;
}

/** Days until the preferred shipping date of our orders, and until the goods of our slips. */
const leadDays = 60;
const include = 'orderItems,deliveryAddress,billingAddress,pickUpPoint';

/** Returns a number or reference that only `service verify` uses. */
export const makeReference = () => `VERIFY-${randomBytes(5).toString('hex')}`;

/**
 * What is placed at the service to check what it takes. Orders are on hold, and are cancelled at
 * the end.
 */
export class WriteSession {
  readonly service: Service;
  readonly #givenSku: string | null;
  /** Undoes each write, and returns in words what remains; null: nothing. */
  readonly #undo: (readonly [name: string, undo: () => Promise<string | null>])[] = [];

  /** @param sku article of the orders; null: one that the client's orders name */
  constructor(service: Service, sku: string | null) {
    this.service = service;
    this.#givenSku = sku;
  }

  /**
   * Returns the article of what is placed.
   * @throws CodedError if the client's orders name none
   */
  async findSku(): Promise<string> {
    const sku = this.#givenSku ?? (await this.service.findSku());
    if (sku === null)
      throw new CodedError('usage', 'no order or shipment names an article; name one with --sku');
    return sku;
  }

  /** Returns a day that is so far away that nothing is done until then. */
  async findLateDay(): Promise<string> {
    const { dateMs } = await this.service.call('common.status.get');
    return addDays(toUtcDay(dateMs ?? Date.now()), leadDays);
  }

  /**
   * Plans an order on hold.
   * @throws CodedError if there is no article or no order type
   */
  async planOrder(): Promise<OrderPlan> {
    const line = { sku: await this.findSku(), quantity: 1 };
    const orderTypeId = readNumber((await this.readList('orderTypes'))[0]?.id);
    if (orderTypeId === null)
      throw new CodedError('undecodable', 'the service lists have no order types');
    const deliveryAddress = {
      lastName: 'Verify Do Not Ship',
      street1: 'Keizersgracht',
      houseNumber: '1',
      postcode: '1015CJ',
      city: 'Amsterdam',
      countryCode: 'NL',
    };
    const fixed = {
      locale: 'nl-NL',
      reference: 'verify',
      onHold: true,
      items: [line, line],
      deliveryAddress,
    };
    const preferredShippingDate = await this.findLateDay();
    return {
      payload: { externalOrderNumber: makeReference(), ...fixed, preferredShippingDate },
      orderTypeId,
    };
  }

  /** Places one more order, with a payload that `change` may change. */
  async placeAnother(
    options: OrderOptions,
    change = (payload: OrderPayload) => payload,
  ): Promise<Placement> {
    const { payload, orderTypeId } = await this.planOrder();
    return this.place({ payload: change(payload), orderTypeId }, options);
  }

  /** Returns the entries of a service list. */
  async readList(list: string): Promise<JsonObject[]> {
    const lists = readEnvelope(await this.service.call('common.settings.get'))?.result;
    return isObject(lists) && Array.isArray(lists[list]) ? lists[list].filter(isObject) : [];
  }

  /**
   * Places an order once. If its outcome is unknown, it is looked up by its number, as the outbox
   * does.
   */
  async place({ payload, orderTypeId }: OrderPlan, options: OrderOptions): Promise<Placement> {
    const json = buildOrderDocument(payload, { orderTypeId, shippingMethodId: null }, options);
    const { externalOrderNumber: number } = payload;
    let id: number | null = null;
    let isRefused = false;
    this.undoAtEnd(number, async () => (isRefused ? null : this.#cancel(number, id)));
    const answer = await this.service.call('v3.orders.create', { json }).catch((error: unknown) => {
      if (error instanceof WarehouseError) return error;
      throw error;
    });
    const isAnswer = !(answer instanceof WarehouseError);
    if (isAnswer && !isDone(answer)) {
      isRefused = true;
      return { refused: describeAnswer(answer) };
    }
    id =
      (isAnswer ? readNumber((readData(answer) ?? [])[0]?.id) : null) ?? (await this.find(number));
    if (id !== null) return { order: await this.read(id) };
    if (isAnswer) return { refused: `${describeAnswer(answer)}, but no order has the number` };
    if (answer.status !== undefined)
      return { refused: `${answer.status}, and no order has the number` };
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
      throw new CodedError(
        'undecodable',
        `an order that was placed cannot be read: ${describeAnswer(answer)}`,
      );
    return { id, resource, included: Object.values(splitIncluded(answer)).flat() };
  }

  /** Remembers how to undo a write, or how to say that it stays. */
  undoAtEnd(name: string, undo: () => Promise<string | null>): void {
    this.#undo.push([name, undo]);
  }

  /** Undoes every write, each once. Returns what remains at the service, in words. */
  async cleanUp(): Promise<string[]> {
    const left: string[] = [];
    for (const [name, undo] of this.#undo.splice(0)) {
      const words = await undo().catch((error: unknown) => {
        if (!(error instanceof CodedError)) throw error;
        return (
          `${name} may exist and could not be cancelled (${removeQuotes(describeError(error))}); ` +
          'cancel it by hand'
        );
      });
      if (words !== null) left.push(words);
    }
    return left;
  }

  async #cancel(number: string, known: number | null): Promise<string> {
    const id = known ?? (await this.find(number));
    if (id === null)
      return `${number}: no answer said whether it exists; it is not listed now; look again later`;
    const answer = await this.service.call('v3.orders.cancel', { path: { id } });
    const open = countOpen(await this.read(id));
    if (open === 0) return `${number} (id ${id}) is cancelled; the service keeps it in its list`;
    return (
      `${number} (id ${id}) still has ${open} open items, ` +
      `as DELETE answered ${describeAnswer(answer)}; cancel it by hand`
    );
  }
}
