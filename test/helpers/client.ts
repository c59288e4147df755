import { afterAll, beforeAll, beforeEach, describe, expect } from 'vitest';
import { operations } from '../../src/sandbox/operations/all.ts';
import type { SandboxControl } from './sandbox-control.ts';

/**
 * A resource of an answer, as far as tests read it. `readOne` reads a document with a single
 * resource.
 */
export interface Resource {
  id: number;
  type: string;
  attributes: Record<string, unknown>;
  relationships: Record<string, { data: { id: number; type: string } }>;
  included?: Resource[];
}
interface Body {
  data: Resource[];
  included?: Resource[];
  links: { next: { href: string } | null };
  meta: { modified: boolean; modifiedItems: { data: { id: number; type: string }[] } };
  errors: { status: string; title: string; source?: { parameter?: string; pointer?: string } }[];
  messageCode: string;
  message: string;
  result: unknown;
  id: string;
}
export interface Answer {
  status: number;
  date: string;
  body: Body;
}
export const readOne = ({ body }: Answer) => body.data as unknown as Resource;
export const titles = ({ body }: Answer) => body.errors.map(({ title }) => title).join('; ');

interface RequestParts {
  readonly path?: Record<string, string | number>;
  readonly query?: string;
  readonly body?: unknown;
  readonly form?: Record<string, string>;
  readonly headers?: Record<string, string>;
}

/** Operations that were answered with success, and not with NOK, since a block of tests began. */
const answered = new Set<string>();

/**
 * Calls operations of the sandbox over HTTP by their names, as one client. It checks every
 * successful answer in the dialect `plain` against the schema of the operation, which allows no
 * missing, misspelt or additional member.
 */
export class ServiceClient {
  readonly #control: SandboxControl;
  readonly name: string;
  token = '';

  constructor(control: SandboxControl, name: string) {
    this.#control = control;
    this.name = name;
  }

  async logIn(): Promise<void> {
    const form = { grant_type: 'password', username: this.name, password: this.name };
    const { body } = await this.ask('common.token', { form });
    this.token = (body as unknown as { access_token: string }).access_token;
  }

  async ask(name: string, parts: RequestParts = {}): Promise<Answer> {
    const operation = operations.find((known) => known.name === name);
    if (operation === undefined) throw new Error(`there is no operation ${name}`);
    const path = operation.path.replaceAll(/:(\w+)/g, (_, part) =>
      encodeURIComponent(parts.path?.[part] ?? ''),
    );
    const answer = await this.fetch(
      operation.method,
      `${path}${parts.query ? `?${parts.query}` : ''}`,
      parts,
    );
    if (answer.status !== 200) return answer;
    if (this.#control.dialect === 'plain' || !name.startsWith('v3.'))
      expect(
        operation.answer.safeParse(answer.body).error?.issues ?? [],
        `answer of ${name}`,
      ).toEqual([]);
    if (answer.body.messageCode !== 'NOK') answered.add(name);
    return answer;
  }

  async fetch(
    method: string,
    path: string,
    { body, form, headers }: RequestParts = {},
  ): Promise<Answer> {
    const answer = await fetch(new URL(path, this.#control.url), {
      method,
      headers: {
        ...(this.token === '' ? {} : { authorization: `bearer ${this.token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(form === undefined ? {} : { body: new URLSearchParams(form) }),
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    return {
      status: answer.status,
      date: answer.headers.get('date') ?? '',
      body: (await answer.json()) as Body,
    };
  }
}

/** Returns a client of a sandbox that `useSandbox` started. It gets a new token for each test. */
export function useClient(control: SandboxControl, name = 'default'): ServiceClient {
  const client = new ServiceClient(control, name);
  beforeEach(() => client.logIn());
  return client;
}

/**
 * Describes the tests of one operation. The block fails if the operation was never answered with
 * success in it. `npm run coverage` lists these blocks.
 */
export function describeOperation(name: string, tests: () => void): void {
  describe(name, () => {
    beforeAll(() => answered.clear());
    tests();
    afterAll(() =>
      expect([...answered], `${name} was never answered with success`).toContain(name),
    );
  });
}

/** Returns an address in JSON:API with a provisional id. */
export const address = (id: string | number, changes: Record<string, unknown> = {}) => ({
  type: 'address',
  id,
  attributes: {
    firstName: 'Anna',
    lastName: 'de Vries',
    street1: 'Keizersgracht',
    houseNumber: '12',
    postcode: '1015CJ',
    city: 'Amsterdam',
    countryCode: 'NL',
    ...changes,
  },
});

export const line = (sku: string, quantity = 1, changes: Record<string, unknown> = {}) => ({
  type: 'orderItem',
  attributes: { sku, quantity, ...changes },
});

interface OrderParts {
  readonly attributes?: Record<string, unknown>;
  readonly relationships?: Record<string, unknown>;
  readonly included?: unknown[];
}

/** Returns the body of POST /v3/orders for one order line, with changes. */
export function orderBody(externalOrderNumber: string, parts: OrderParts = {}) {
  return {
    data: {
      type: 'order',
      attributes: {
        externalOrderNumber,
        locale: 'nl-NL',
        email: 'anna@example.com',
        ...parts.attributes,
      },
      relationships: {
        orderType: { data: { id: 31, type: 'orderType' } },
        deliveryAddress: { data: { id: 'd', type: 'address' } },
        billingAddress: { data: { id: 'b', type: 'address' } },
        ...parts.relationships,
      },
      included: parts.included ?? [line('MUG-BLUE', 2), address('d'), address('b')],
    },
  };
}
