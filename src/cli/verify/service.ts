import type { Operation, OperationName, Operations } from '../../../config/operations.ts';
import { WarehouseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { formatCount } from '../../operate/health/problem.ts';
import type { JsonObject } from '../../push/kind.ts';
import { encodeQuery, type QueryParameters } from '../../service/transport/query.ts';
import type { JsonAnswer, Question, RawClient } from '../../service/transport/raw-client.ts';

/** An object of an answer, as received. */
/** Returns true for a 2xx answer. */
export const isDone = ({ status }: JsonAnswer): boolean => status >= 200 && status < 300;

/** Returns true if the answer says that the path or the method does not exist. */
export const isNoRoute = (answer: JsonAnswer): boolean =>
  [404, 405, 501].includes(answer.status) && readEnvelope(answer) === null;

/** Returns the envelope of an answer (docs/interface.md, 2.2 Envelope), or null if it is none. */
export function readEnvelope({
  json,
}: JsonAnswer): { readonly isOk: boolean; readonly result: Json } | null {
  if (!isObject(json) || (json.messageCode !== 'OK' && json.messageCode !== 'NOK')) return null;
  return { isOk: json.messageCode === 'OK', result: json.result ?? null };
}

/** Returns `errors[]` of JSON:API, or null. */
export function readErrors({ json }: JsonAnswer): readonly Json[] | null {
  return isObject(json) && Array.isArray(json.errors) ? json.errors : null;
}

/** Returns the resources of a document, or null if it has no `data`. */
export function readData({ json }: JsonAnswer): JsonObject[] | null {
  const data = isObject(json) ? json.data : undefined;
  if (Array.isArray(data)) return data.filter(isObject);
  return isObject(data) ? [data] : null;
}

/** Returns the resources that are included in a document, inside its resources or at its top. */
export function splitIncluded(answer: JsonAnswer): {
  readonly inside: JsonObject[];
  readonly top: JsonObject[];
} {
  const { json } = answer;
  const list = (value: Json | undefined) => (Array.isArray(value) ? value.filter(isObject) : []);
  return {
    inside: (readData(answer) ?? []).flatMap(({ included }) => list(included)),
    top: isObject(json) ? list(json.included) : [],
  };
}

/** Returns a member of a resource's attributes. */
export function readAttribute(resource: JsonObject | undefined, name: string): Json | undefined {
  return isObject(resource?.attributes) ? resource.attributes[name] : undefined;
}

/** Returns the ids that a relationship of a resource names. */
export function readRelated(resource: JsonObject | undefined, name: string): number[] {
  const relationship = isObject(resource?.relationships) ? resource.relationships[name] : undefined;
  const data = isObject(relationship) ? relationship.data : undefined;
  const linked = Array.isArray(data) ? data : data === undefined ? [] : [data];
  return linked.flatMap((one) => (isObject(one) ? (readNumber(one.id) ?? []) : []));
}

/**
 * Names the attributes and single relationships of a resource that were sent and are not shown as
 * they were sent. A number may come back as its digits.
 */
export function findDropped(sent: JsonObject | object, shown: JsonObject | undefined): string[] {
  const { attributes = {}, relationships = {} } = sent as {
    attributes?: object;
    relationships?: object;
  };
  const missing = Object.entries(attributes).filter(
    ([name, value]) => !isSame(value, readAttribute(shown, name)),
  );
  const links = Object.entries(relationships).filter(
    ([name, { data }]) => !Array.isArray(data) && !readRelated(shown, name).includes(data.id),
  );
  return [...missing, ...links].map(([name]) => name);
}

function isSame(sent: unknown, shown: Json | undefined): boolean {
  if (!isObject(sent)) return sent === undefined || String(sent) === String(shown);
  return (
    isObject(shown) && Object.entries(sent).every(([name, value]) => isSame(value, shown[name]))
  );
}

/** Reads a number, or the digits of one. Returns null for anything else. */
export function readNumber(value: Json | undefined): number | null {
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) ? number : null;
}

/** Describes an answer without a word of its body. */
export function describeAnswer(answer: JsonAnswer): string {
  const { status, json } = answer;
  const envelope = readEnvelope(answer);
  const errors = readErrors(answer);
  const form =
    json === undefined
      ? 'without JSON'
      : envelope !== null
        ? `with an envelope that says ${envelope.isOk ? 'OK' : 'NOK'}`
        : errors !== null
          ? `with ${formatCount(errors.length, 'JSON:API error')}`
          : 'with JSON';
  return `${status} ${form}`;
}

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
 * The service of one client as checks see it: the operations in use, with what the checks have
 * learned. Requests are sent one after the other.
 */
export class Service {
  readonly #client: RawClient;
  readonly #inUse: Operations;
  readonly #learned = new Map<OperationName, Partial<Operation>>();
  // The timeouts of HTTP end each request. A stop ends the checks, but not the cancellations.
  readonly #signal = new AbortController().signal;
  readonly #samples = new Map<string, Promise<readonly JsonObject[]>>();
  readonly #lookUps = new Map<number, Promise<JsonAnswer>>();

  constructor(rawClient: RawClient, operations: Operations) {
    this.#client = rawClient;
    this.#inUse = operations;
  }

  /** Returns an operation with what was learned about it. */
  operation(name: OperationName): Operation {
    return { ...this.#inUse[name], ...this.#learned.get(name) };
  }

  /** Records an entry, which counts from now on. */
  learn(name: OperationName, entry: Partial<Operation>): void {
    this.#learned.set(name, { ...this.#learned.get(name), ...entry });
  }

  /** Sends a request once. */
  async ask(
    method: Question['method'],
    template: string,
    call: Call & Pick<Question, 'form' | 'open'> = {},
  ) {
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
    const query =
      this.operation(name).pageSize === false ? parameters : { ...parameters, 'page[size]': 20 };
    const key = `${name} ${encodeQuery(query)}`;
    const known = this.#samples.get(key);
    if (known !== undefined) return known;
    const asked = this.call(name, { query }).then((answer) =>
      isDone(answer) ? (readData(answer) ?? []) : [],
    );
    this.#samples.set(key, asked);
    return asked;
  }

  /** Looks up a shipment by criteria. It is requested once. */
  lookUp(id: number): Promise<JsonAnswer> {
    const asked = this.#lookUps.get(id) ?? this.call('v2.shipment.search', { json: { id } });
    this.#lookUps.set(id, asked);
    return asked;
  }

  /** Returns the sku of an article that an order or a shipment names; null if there is none. */
  async findSku(): Promise<string | null> {
    for (const [name, include] of [
      ['v3.orders.list', 'orderItems'],
      ['v3.shipments.list', 'shipmentItems'],
    ] as const) {
      const answer = await this.call(name, { query: { include, 'page[size]': 20 } });
      const { inside, top } = splitIncluded(answer);
      const skus = [...inside, ...top].map((item) => readAttribute(item, 'sku'));
      const found = skus.find((sku) => typeof sku === 'string' && sku !== '');
      if (typeof found === 'string') return found;
    }
    return null;
  }
}
