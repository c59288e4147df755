import { setTimeout as wait } from 'node:timers/promises';
import { orderPayload } from '../../../test/helpers/order-payload.ts';
import { CliProcess } from '../../../test/helpers/processes/cli-process.ts';
import { startSandbox, workerEnv } from '../../../test/helpers/processes/processes.ts';
import type { SandboxControl } from '../../../test/helpers/sandbox-control.ts';
import { waitFor } from '../../../test/helpers/wait.ts';
import { TcpProxy } from '../proxy.ts';
import type { PostgresProcess } from './postgres-process.ts';

/** What a situation did to the orders. */
export interface Outcome {
  /** Milliseconds from the failure until an order that came later was sent. */
  readonly pushesAfterMs: number;
  /** Orders that Postgres lost although it had committed them. The ERP has to book them again. */
  readonly gone: number;
  /** Orders in the database that the service does not have. */
  readonly lost: number;
  /** Orders that the service has more than once. */
  readonly doubled: number;
}

/** Milliseconds between two orders of the ERP. */
const orderEveryMs = 150;
const maxWaitMs = 900_000;

/**
 * A primary with a standby, an address that leads to one of them, a worker behind it, and an ERP
 * that inserts orders through it.
 */
export class Scene {
  readonly root: string;
  primary: PostgresProcess;
  standby: PostgresProcess;
  readonly address: TcpProxy;
  readonly sandbox: SandboxControl;
  readonly #processes: CliProcess[];
  readonly #servers: PostgresProcess[];
  /** Orders whose insert was committed. */
  readonly #committed: string[] = [];
  #isOrdering = false;
  #ordering: Promise<void> = Promise.resolve();
  #count = 0;

  private constructor(
    root: string,
    servers: readonly [PostgresProcess, PostgresProcess],
    address: TcpProxy,
    sandbox: { readonly process: CliProcess; readonly control: SandboxControl },
  ) {
    this.root = root;
    [this.primary, this.standby] = servers;
    this.#servers = [...servers];
    this.address = address;
    this.sandbox = sandbox.control;
    this.#processes = [sandbox.process];
  }

  /**
   * @param template a migrated Postgres that is stopped
   * @param settings of the primary
   */
  static async open(
    template: PostgresProcess,
    root: string,
    settings: Readonly<Record<string, string>>,
  ): Promise<Scene> {
    const [primary, standby] = [template.copy(root), template.copy(root)];
    await primary.start(settings);
    standby.follow(primary);
    await standby.start();
    await primary.awaitStandby();

    const address = await TcpProxy.start(new URL(primary.url));
    const sandbox = await startSandbox((args) => new CliProcess(args, {}));
    // The sandbox accepts repeated numbers, so that an order that is sent twice is there twice.
    await sandbox.control.switches({ repeatedNumbers: true });
    const scene = new Scene(root, [primary, standby], address, sandbox);
    scene.resumeOrders();
    return scene;
  }

  async startWorker(env: Record<string, string> = {}, url = this.address.url.href) {
    const settings = { ...noPolls, HTTP_TIMEOUT_MS: '3000', ...env };
    const worker = new CliProcess(['worker'], workerEnv(url, this.sandbox, settings));
    this.#processes.push(worker);
    await worker.line('worker_started', maxWaitMs);
    return worker;
  }

  /** Adds a Postgres that is stopped with the scene. */
  add(server: PostgresProcess): PostgresProcess {
    this.#servers.push(server);
    return server;
  }

  /** Makes the standby the primary, and leads the address to it. */
  async takeOver(): Promise<void> {
    await this.standby.promote();
    this.address.lead(new URL(this.standby.url));
    [this.primary, this.standby] = [this.standby, this.primary];
  }

  /** Leads the address to another Postgres, which is the primary from now on. */
  replacePrimary(server: PostgresProcess): void {
    this.primary = server;
    this.address.lead(new URL(server.url));
  }

  /** Stops the ERP, until it is resumed. */
  async holdOrders(): Promise<void> {
    this.#isOrdering = false;
    await this.#ordering;
  }

  resumeOrders(): void {
    this.#isOrdering = true;
    this.#ordering = this.#order();
  }

  /** Runs a command of the operator. */
  async command(args: readonly string[], url = this.address.url.href): Promise<void> {
    const command = new CliProcess(args, { DATABASE_URL: url });
    const { code } = await command.ended;
    if (code !== 0) throw new Error(`${args.join(' ')}: ${command.output}`);
  }

  /** Waits until workers hold all rows because of the database. */
  async awaitHold(): Promise<void> {
    await this.#await(
      'the workers to hold the rows',
      'sync.push_database where changed_at < now()',
    );
  }

  /** Waits until this number of orders is sent after now. */
  async awaitOrders(count: number): Promise<void> {
    const [{ done } = { done: 0 }] = await this.primary.query<{ done: number }>(
      "select count(*)::int as done from fulfilment.outbox where status = 'done'",
    );
    await this.#await(
      `${count} more orders`,
      `fulfilment.outbox where status = 'done' having count(*) >= ${done + count}`,
    );
  }

  /** Waits until an order is sent that came after this moment. Returns the milliseconds. */
  async awaitPushes(fromMs: number): Promise<number> {
    const next = `FO-${this.#count + 2}`;
    await this.#await(
      'a later order',
      `fulfilment.outbox where status = 'done' and reference = '${next}'`,
    );
    return Math.round(performance.now() - fromMs);
  }

  #await(what: string, from: string): Promise<unknown> {
    return waitFor(
      what,
      async () =>
        (await this.primary.query(`select 1 from ${from}`).catch(() => [])).length > 0 || null,
      maxWaitMs,
    );
  }

  /** Ends the orders, waits until all are settled, and compares the database with the service. */
  async settle(pushesAfterMs: number): Promise<Outcome> {
    await this.holdOrders();
    await waitFor(
      'all orders to be settled',
      async () => {
        const open = await this.primary.query(
          "select from fulfilment.outbox where status in ('pending', 'sending', 'unknown')",
        );
        return open.length === 0;
      },
      maxWaitMs,
    );
    const rows = await this.primary.query<{ reference: string }>(
      'select reference from fulfilment.outbox',
    );
    const stored = new Set(rows.map(({ reference }) => reference));
    const there = await this.sandbox.orderNumbers();
    const sent = new Set(there);
    return {
      pushesAfterMs,
      gone: this.#committed.filter((reference) => !stored.has(reference)).length,
      lost: [...stored].filter((reference) => !sent.has(reference)).length,
      doubled: there.length - sent.size,
    };
  }

  async close(): Promise<void> {
    await this.holdOrders();
    for (const process of this.#processes) process.kill('SIGKILL');
    await Promise.all(this.#processes.map(({ ended }) => ended));
    await this.address.close();
    for (const server of this.#servers) await server.stop();
  }

  /** The ERP: inserts an order now and then, and repeats an insert that got no answer. */
  async #order(): Promise<void> {
    while (this.#isOrdering) {
      const reference = `FO-${++this.#count}`;
      while (this.#isOrdering && !(await this.#insert(reference))) await wait(orderEveryMs);
      await wait(orderEveryMs);
    }
  }

  async #insert(reference: string): Promise<boolean> {
    const insert = this.primary.query(
      `insert into fulfilment.outbox (kind, reference, payload)
       select 'order.create', $1, $2
       where not exists (select from fulfilment.outbox where reference = $1)`,
      [reference, JSON.stringify(orderPayload(reference))],
    );
    try {
      await insert;
      this.#committed.push(reference);
      return true;
    } catch {
      // The primary is away. The order is inserted again when one answers.
      return false;
    }
  }
}

/** Nothing but pushing. */
const noPolls = Object.fromEntries(
  ['SHIPMENTS', 'RETURN_ITEMS', 'INBOUNDS', 'INBOUND_PACKING_SLIPS', 'ORDERS', 'PARCELS'].map(
    (name) => [`SCHEDULE_PULL_${name}`, 'off'],
  ),
);
