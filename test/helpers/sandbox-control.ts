import type { Fault } from '../../src/sandbox/faults.ts';
import type { Dialect, Switches } from '../../src/sandbox/options.ts';
import type { LoggedRequest } from '../../src/sandbox/request-log.ts';
import type { ShipmentStatus } from '../../src/sandbox/store/model.ts';

export type FaultRule = Partial<Fault> & Pick<Fault, 'operation' | 'effect'>;

interface SeedOptions {
  readonly statuses?: readonly ShipmentStatus[];
  readonly client?: string;
  readonly spreadDays?: number;
}

/** Calls the control routes of a sandbox over HTTP, in this or another process. */
export class SandboxControl {
  url: URL;
  /** The dialect that was last chosen through this object. */
  dialect: Dialect = 'plain';

  constructor(url = new URL('http://127.0.0.1')) {
    this.url = url;
  }

  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const answer = await fetch(new URL(path, this.url), {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  /** Adds shipments with these statuses in turn, spread over the last `spreadDays` days. */
  seed(
    shipments: number,
    { statuses = ['SHIPPED'], client = 'default', spreadDays = 30 }: SeedOptions = {},
  ) {
    return this.call('POST', '/_sandbox/seed', { client, shipments, statuses, spreadDays });
  }

  advance(seconds: number) {
    return this.call('POST', '/_sandbox/advance', { seconds });
  }

  /**
   * Advances the time in steps until a condition holds.
   * @throws Error if it does not hold within 40 days
   */
  async advanceUntil(holds: () => Promise<boolean>, stepHours = 2): Promise<void> {
    for (let hours = 0; hours < 24 * 40; hours += stepHours) {
      if (await holds()) return;
      await this.advance(stepHours * 3_600);
    }
    throw new Error('the condition did not hold within 40 days');
  }

  setStatus(shipmentIds: number[], status: ShipmentStatus, client = 'default') {
    return this.call('POST', '/_sandbox/edit', { client, shipmentIds, status });
  }

  async switches(switches: Partial<Switches>): Promise<Switches> {
    const chosen = await this.call<Switches>('PUT', '/_sandbox/switches', switches);
    this.dialect = chosen.dialect;
    return chosen;
  }

  faults(...rules: FaultRule[]) {
    return this.call('POST', '/_sandbox/faults', rules);
  }

  clearFaults() {
    return this.call('DELETE', '/_sandbox/faults');
  }

  /**
   * Returns the requests to the service after the place `after`, without requests to control
   * routes.
   */
  requests(after = 0): Promise<LoggedRequest[]> {
    return this.call('GET', `/_sandbox/requests?after=${after}`);
  }

  async lastPlace(): Promise<number> {
    return (await this.requests()).at(-1)?.place ?? 0;
  }

  async requestsTo(path: string, after = 0): Promise<LoggedRequest[]> {
    return (await this.requests(after)).filter((request) => request.path === path);
  }

  /** Counts the requests of an operation. */
  async count(operation: string, after = 0): Promise<number> {
    return (await this.requests(after)).filter((request) => request.operation === operation).length;
  }

  /** Returns the orders that the service has. */
  async orders(): Promise<readonly SandboxOrder[]> {
    const { clients } = await this.call<{ clients: { orders: SandboxOrder[] }[] }>(
      'GET',
      '/_sandbox/state?lists=orders',
    );
    return clients[0]?.orders ?? [];
  }

  /** Returns the numbers of the orders that the service has. */
  async orderNumbers(): Promise<string[]> {
    return (await this.orders()).map(({ resource }) => resource.attributes.externalOrderNumber);
  }

  /** Renames an order of the client `default`, as somebody else does. */
  rename(orderId: unknown, externalOrderNumber: string) {
    const order = { client: 'default', orderId, externalOrderNumber };
    return this.call('POST', '/_sandbox/rename', order);
  }
}

/** An order as the sandbox keeps it. */
interface SandboxOrder {
  readonly resource: {
    readonly attributes: {
      readonly externalOrderNumber: string;
      readonly reference: string | null;
    };
  };
  readonly included: readonly { type: string; attributes: { quantity?: number } }[];
  readonly attachments: readonly { filename: string }[];
}
