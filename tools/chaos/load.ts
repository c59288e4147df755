import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../../src/sandbox/random.ts';
import { orderPayload } from '../../test/helpers/order-payload.ts';
import { clients, type Stage } from './stage.ts';

/** Prefix of the numbers of these orders. The orders that the sandbox makes have another one. */
export const prefix = 'ERP-';

/**
 * Inserts rows that do not exist yet. Safe to repeat: if the answer is lost, the insert may have
 * happened.
 */
const insertRows = `
  insert into fulfilment.outbox (client, kind, reference, payload)
  select r.client, r.kind, r.reference, r.payload
  from rows from (jsonb_to_recordset($1) as (client text, kind text, reference text, payload jsonb))
    with ordinality as r (client, kind, reference, payload, place)
  where not exists (select from fulfilment.outbox o where (o.client, o.kind, o.reference) = (r.client, r.kind, r.reference))
  order by r.place`;

/** A row of the outbox as the ERP knows it. */
export interface OrderRow {
  readonly client: string;
  readonly kind: string;
  readonly reference: string;
  readonly payload: unknown;
}

/**
 * The load of a campaign: the ERP inserts orders and changes of orders, and virtual time passes at
 * the warehouse.
 */
export class Load {
  readonly #stage: Stage;
  readonly #random: Random;
  orders = 0;

  constructor(stage: Stage, random: Random) {
    this.#stage = stage;
    this.#random = random;
  }

  async run(lastsMs: number): Promise<void> {
    const { parts } = this.#stage;
    const random = this.#random;
    const endMs = performance.now() + lastsMs;
    while (performance.now() < endMs) {
      await parts.sandbox.advance(random.between(300, 3_000));
      const rows = clients.flatMap((client) => this.#draw(client));
      if (rows.length > 0) await this.#stage.retryQuery(insertRows, [JSON.stringify(rows)]);
      // Orders arrive at irregular intervals, as in a shop.
      await wait(random.between(50, 400));
    }
  }

  #draw(client: string): OrderRow[] {
    const random = this.#random;
    return Array.from({ length: random.between(0, 4) }).flatMap(() => {
      const reference = `${prefix}${++this.orders}`;
      const order = { client, kind: 'order.create', reference, payload: orderPayload(reference) };
      if (random.chance(0.7)) return [order];
      // This order waits in the warehouse, because a shipped order cannot be changed any more.
      const waiting = {
        ...order,
        payload: orderPayload(reference, { preferredShippingDate: '2099-12-31' }),
      };
      return [
        waiting,
        { client, kind: 'order.update', reference, payload: { reference: 'changed' } },
      ];
    });
  }
}
