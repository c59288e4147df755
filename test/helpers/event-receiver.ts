/**
 * A receiver of business events, what a worker posts them with, and entries of the feed that they
 * are made of.
 */

import { text } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';
import { afterEach } from 'vitest';
import { silentLogger } from '../../src/core/logger.ts';
import { connectForWriting } from '../../src/db/connect.ts';
import { Deliverer, type Receiver } from '../../src/operate/deliveries/deliverer.ts';
import { startEventMaker } from '../../src/operate/deliveries/event-maker.ts';
import { openDispatcher } from '../../src/service/transport/dispatcher.ts';
import type { TestDatabase } from './database.ts';
import type { useServices } from './processes/service.ts';
import { makeConfig } from './puller.ts';
import type { SandboxControl } from './sandbox-control.ts';

const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;

/** A business event as a receiver gets it. */
export interface ReceivedEvent {
  readonly type: string;
  readonly timestamp: string;
  readonly data: {
    readonly client: string;
    readonly id: number | null;
    readonly number: string | null;
    readonly row: Record<string, unknown> | null;
  };
}

/** Starts a receiver that checks each signature. `answer` returns its status. */
export async function startReceiver(
  services: ReturnType<typeof useServices>,
  answer: (event: ReceivedEvent) => number = () => 204,
) {
  const attempts: {
    readonly id: string;
    readonly status: number;
    readonly event: ReceivedEvent;
  }[] = [];
  const { url } = await services.start(async (request, response) => {
    const raw = await text(request);
    const headers = request.headers as Record<string, string>;
    const event = new Webhook(secret).verify(raw, headers) as ReceivedEvent;
    const status = answer(event);
    attempts.push({ id: String(headers['webhook-id']), status, event });
    response.writeHead(status).end();
  });
  const taken = () => attempts.filter(({ status }) => status < 300).map(({ event }) => event);
  return { url, attempts, taken };
}

export const subscribe = (url: URL, more: Partial<Receiver> = {}): Receiver => ({
  ...{
    name: 'default',
    kind: 'event',
    url: url.href,
    secret,
    types: null,
    clients: null,
    personalData: false,
  },
  ...more,
});

/** Returns a function that starts what a worker posts events with. It is closed after the test. */
export function usePosting(database: TestDatabase, sandbox: SandboxControl) {
  const closers: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    await Promise.all(closers.splice(0).map((close) => close()));
  });
  return async (...receivers: Receiver[]) => {
    const dispatcher = openDispatcher(makeConfig(database, sandbox), 10_000);
    const log = silentLogger;
    const { db, close } = connectForWriting(database.url, log, {
      name: 'deliveries',
      max: 4,
      queryTimeoutMs: 60_000,
      prepares: true,
    });
    const deliverer = new Deliverer({ db, receivers, dispatcher, timeoutMs: 5_000, log });
    await deliverer.start();
    const maker = startEventMaker(db, log);
    closers.push(async () => {
      await Promise.all([deliverer.close(), maker.close()]);
      await Promise.all([dispatcher.destroy(), close()]);
    });
  };
}

/** Stores shipments and their entries in the feed, as a poll does after the first load. */
export const insertShipments = (
  database: TestDatabase,
  first: number,
  last: number,
  client = 'default',
) =>
  database.query(`
    insert into sync.freshness (client, stream, complete_at, loaded_at)
    values ('${client}', 'shipments', now(), '2020-01-01') on conflict do nothing;
    begin;
    insert into fulfilment.shipments (client, id, status, ready_to_pick_on, order_id, raw, read_no)
    select '${client}', n, 'READY_TO_PICK', now(), n, '{}', 1 from generate_series(${first}, ${last}) n;
    insert into fulfilment.changes (client, entity, id, operation)
    select '${client}', 'shipments', n, 'created' from generate_series(${first}, ${last}) n;
    commit`);
