import type { Operation, OperationName, Operations } from '../../../config/operations.ts';
import { WarehouseError } from '../../core/errors.ts';
import { encodeQuery, type QueryParameters } from '../../warehouse/transport/query.ts';
import type { JsonAnswer, Question, RawClient } from '../../warehouse/transport/raw-client.ts';
import { isDone, type JsonObject, readAttribute, readData, readIncluded } from './answer.ts';

/** The parts of a request that do not depend on the path. */
interface Call {
  readonly path?: Readonly<Record<string, string | number>>;
  readonly query?: QueryParameters | string;
  readonly json?: unknown;
}

/** An id that no resource has. */
export const unknownId = 999_999_999_999;

/** Statuses that say nothing about the request. */
const passing = new Set([401, 408, 425, 429, 500, 502, 503, 504]);

/**
 * The service of one client as checks see it: the operations in use, with what the checks have learned. Requests are sent
 * one after the other.
 */
export class Service {
  readonly #client: RawClient;
  readonly #inUse: Operations;
  readonly #learned = new Map<OperationName, Partial<Operation>>();
  readonly #signal: AbortSignal;
  readonly #samples = new Map<string, Promise<readonly JsonObject[]>>();

  constructor(rawClient: RawClient, operations: Operations, signal: AbortSignal) {
    this.#client = rawClient;
    this.#inUse = operations;
    this.#signal = signal;
  }

  /** Returns an operation with what was learned about it. */
  operation(name: OperationName): Operation {
    return { ...this.#inUse[name], ...this.#learned.get(name) };
  }

  /** Returns true if another operation than this one has the route. Such an answer would say nothing about this one. */
  isRouteOfAnother(name: OperationName, method: string, path: string): boolean {
    const normalize = (text: string) => text.toLowerCase().replaceAll(/\{\w+\}/g, '{}');
    return (Object.keys(this.#inUse) as OperationName[]).some((other) => {
      const operation = this.operation(other);
      return other !== name && operation.method === method && normalize(operation.path) === normalize(path);
    });
  }

  /** The entries of WAREHOUSE_OPERATIONS_FILE that were learned. */
  get learned(): ReadonlyMap<OperationName, Partial<Operation>> {
    return this.#learned;
  }

  /** Records an entry, which counts from now on. */
  learn(name: OperationName, entry: Partial<Operation>): void {
    this.#learned.set(name, { ...this.#learned.get(name), ...entry });
  }

  /**
   * Sends a request once.
   * @throws WarehouseError if the answer says nothing about the request
   */
  async ask(method: Question['method'], template: string, call: Call & Pick<Question, 'form' | 'open'> = {}) {
    const { query, ...rest } = call;
    const text = typeof query === 'string' ? query : query && encodeQuery(query);
    const answer = await this.#client.ask({
      ...rest,
      method,
      template,
      signal: this.#signal,
      ...(text === undefined ? {} : { query: text }),
    });
    if (!passing.has(answer.status)) return answer;
    const outcome = answer.status >= 500 ? 'unknown' : 'not_executed';
    throw new WarehouseError('http_status', `${method} ${template}: answered ${answer.status}`, {
      outcome,
      status: answer.status,
    });
  }

  /** Calls an operation as it is in use. */
  call(name: OperationName, call: Call = {}): Promise<JsonAnswer> {
    const { method, path } = this.operation(name);
    return this.ask(method, path, call);
  }

  /** Returns some resources of a list. They are requested once. A list that is refused has none. */
  sample(name: OperationName, parameters: QueryParameters = {}): Promise<readonly JsonObject[]> {
    const query = this.operation(name).pageSize === false ? parameters : { ...parameters, 'page[size]': 20 };
    const key = `${name} ${encodeQuery(query)}`;
    const known = this.#samples.get(key);
    if (known !== undefined) return known;
    const asked = this.call(name, { query }).then((answer) => (isDone(answer) ? (readData(answer) ?? []) : []));
    this.#samples.set(key, asked);
    return asked;
  }

  /** Returns the sku of an article that an order or a shipment names; null if there is none. */
  async findSku(): Promise<string | null> {
    for (const [name, include] of [
      ['v3.orders.list', 'orderItems'],
      ['v3.shipments.list', 'shipmentItems'],
    ] as const) {
      const answer = await this.call(name, { query: { include, 'page[size]': 20 } });
      const { inside, top } = readIncluded(answer);
      const skus = [...inside, ...top].map((item) => readAttribute(item, 'sku'));
      const found = skus.find((sku) => typeof sku === 'string' && sku !== '');
      if (typeof found === 'string') return found;
    }
    return null;
  }
}
