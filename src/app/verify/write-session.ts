import { randomBytes } from 'node:crypto';
import type { Operation } from '../../../config/operations.ts';
import { CodedError, describeError, WarehouseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { removeQuotes } from '../../core/quote.ts';
import { addDays, toUtcDay } from '../../core/time.ts';
import type { OrderPayload } from '../../payloads/order.ts';
import { buildOrderDocument } from '../../sync/push/kinds/order/order-payload.ts';
import type { JsonAnswer } from '../../warehouse/transport/raw-client.ts';
import {
  describeAnswer,
  isDone,
  type JsonObject,
  readAttribute,
  readData,
  readEnvelope,
  readIncluded,
  readNumber,
} from './answer.ts';
import type { Service } from './service.ts';

/** An order that the service took, as it is read back. */
export interface PlacedOrder {
  readonly id: number;
  readonly resource: JsonObject;
  readonly items: readonly JsonObject[];
  readonly addresses: readonly JsonObject[];
}

/** The assumptions about the body of an order that the service may not share. */
export type OrderOptions = Pick<Operation, 'included' | 'billingAddress'>;

/** The order that the checks share. */
export interface SharedOrder {
  readonly payload: OrderPayload;
  readonly orderTypeId: number;
  readonly order: PlacedOrder;
  /** How the service took the order. */
  readonly options: OrderOptions;
}

/** The outcome of an order: it was taken, or refused with an answer. */
type Placement = { readonly order: PlacedOrder } | { readonly refused: string };

/** Days until the preferred shipping date of our orders, which are on hold, too. */
const shippingDays = 60;
const include = 'orderItems,deliveryAddress,billingAddress';

interface AskedOrder {
  readonly number: string;
  state: number | 'refused' | 'unknown';
}

/** The orders that are placed to check what the service takes. Each is on hold, and is cancelled at the end. */
export class WriteSession {
  readonly service: Service;
  readonly #givenSku: string | null;
  /** The orders that were asked for, each with its id, or whether it was refused or is not known. */
  readonly #asked: AskedOrder[] = [];

  /** @param sku article of the orders; null: one that the client's orders name */
  constructor(service: Service, sku: string | null) {
    this.service = service;
    this.#givenSku = sku;
  }

  /** Returns the payload of an order on hold, or the reason why there is none. */
  async makePayload(): Promise<{ payload: OrderPayload; orderTypeId: number } | { problem: string }> {
    const sku = this.#givenSku ?? (await this.service.findSku());
    if (sku === null) return { problem: 'no order or shipment names an article; name one with --sku' };
    const orderTypeId = (await this.readSettingIds('orderTypes'))[0];
    if (orderTypeId === undefined) return { problem: 'the service lists have no order types' };
    const { dateMs } = await this.service.call('common.status.get');
    const line = { sku, quantity: 1 };
    const deliveryAddress = {
      lastName: 'Verify Do Not Ship',
      street1: 'Keizersgracht',
      houseNumber: '1',
      postcode: '1015CJ',
      city: 'Amsterdam',
      countryCode: 'NL',
    };
    const externalOrderNumber = `VERIFY-${randomBytes(5).toString('hex')}`;
    const preferredShippingDate = addDays(toUtcDay(dateMs ?? Date.now()), shippingDays);
    const fixed = { locale: 'nl-NL', reference: 'verify', onHold: true, preferredShippingDate };
    return { payload: { externalOrderNumber, ...fixed, items: [line, line], deliveryAddress }, orderTypeId };
  }

  /** Returns the ids of a service list. */
  async readSettingIds(list: string): Promise<number[]> {
    const settings = readEnvelope(await this.service.call('common.settings.get'))?.result;
    const entries = isObject(settings) && Array.isArray(settings[list]) ? settings[list] : [];
    return entries.flatMap((one) => (isObject(one) ? (readNumber(one.id) ?? []) : []));
  }

  /**
   * Places an order once. If its outcome is unknown, it is looked up by its number, as the outbox does.
   * @throws WarehouseError if that is not known either
   */
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

  /** Reads an order with its items and addresses. */
  async read(id: number): Promise<PlacedOrder> {
    const answer = await this.service.call('v3.orders.get', { path: { id }, query: { include } });
    const [resource] = readData(answer) ?? [];
    if (resource === undefined) throw makeReadError(answer);
    const { inside, top } = readIncluded(answer);
    const included = [...inside, ...top];
    const select = (type: string) => included.filter((one) => one.type === type);
    return { id, resource, items: select('orderItem'), addresses: select('address') };
  }

  /** Cancels every order that was placed. Returns what remains at the service, in words. */
  async cleanUp(): Promise<string[]> {
    const left: string[] = [];
    for (const { number, state } of this.#asked) {
      if (state === 'refused') continue;
      const words = await this.#cancel(number, state === 'unknown' ? null : state).catch((error: unknown) => {
        if (!(error instanceof CodedError)) throw error;
        return `${number} may exist and could not be cancelled (${removeQuotes(describeError(error))}); cancel it by hand`;
      });
      left.push(words);
    }
    return left;
  }

  async #cancel(number: string, known: number | null): Promise<string> {
    const id = known ?? (await this.find(number));
    if (id === null) return `${number}: no answer said whether it exists; it is not listed now; look again later`;
    const answer = await this.service.call('v3.orders.cancel', { path: { id } });
    const { items } = await this.read(id);
    const open = items.filter((item) => readAttribute(item, 'quantity') !== 0).length;
    if (open === 0) return `${number} (id ${id}) is cancelled; the service keeps it in its list`;
    return `${number} (id ${id}) still has ${open} open items, as DELETE answered ${describeAnswer(answer)}; cancel it by hand`;
  }
}

function makeReadError(answer: JsonAnswer): CodedError {
  return new CodedError('undecodable', `an order that was placed cannot be read: ${describeAnswer(answer)}`);
}
