import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../../src/sandbox/random.ts';
import { orderPayload } from '../../test/helpers/order-payload.ts';
import { clients, type Stage } from './stage.ts';

/** What the numbers of these orders begin with: the sandbox's own shop has others. */
export const prefix = 'ERP-';

/** Inserts rows that are not there yet: the answer to an insert may be lost as well as the insert. */
const insertRows = `
  insert into fulfilment.outbox (client, kind, reference, payload)
  select r.client, r.kind, r.reference, r.payload
  from rows from (jsonb_to_recordset($1) as (client text, kind text, reference text, payload jsonb))
    with ordinality as r (client, kind, reference, payload, place)
  where not exists (select from fulfilment.outbox o where (o.client, o.kind, o.reference) = (r.client, r.kind, r.reference))
  order by r.place`;

interface Row {
  readonly client: string;
  readonly kind: string;
  readonly reference: string;
  readonly payload: unknown;
}

/** What an ERP and a warehouse do in the meantime: orders, changes of orders, and days that go by. */
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
      if (rows.length > 0) await this.#stage.insist(insertRows, [JSON.stringify(rows)]);
      // The rhythm of a shop.
      await wait(random.between(50, 400));
    }
  }

  #draw(client: string): Row[] {
    const random = this.#random;
    return Array.from({ length: random.between(0, 4) }).flatMap(() => {
      const reference = `${prefix}${++this.orders}`;
      const order = { client, kind: 'order.create', reference, payload: orderPayload(reference) };
      if (random.chance(0.7)) return [order];
      // One that waits in the warehouse: what is shipped takes no change any more.
      const waiting = { ...order, payload: orderPayload(reference, { preferredShippingDate: '2099-12-31' }) };
      return [waiting, { client, kind: 'order.update', reference, payload: { reference: 'changed' } }];
    });
  }
}
