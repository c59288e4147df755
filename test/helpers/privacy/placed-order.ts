import { writePage } from '../../../src/sandbox/rules/pdf.ts';
import type { TestDatabase } from '../database.ts';
import { orderPayload } from '../order-payload.ts';
import type { Pull } from '../puller.ts';
import type { usePusher } from '../pusher.ts';
import type { SandboxControl } from '../sandbox-control.ts';

/** A person with texts that nothing else contains. */
function makePerson(mark: string) {
  return {
    email: `mail.${mark}@example.test`,
    secondEmail: `second.${mark}@example.test`,
    phone: `+31${mark}`,
    vat: `NL${mark}B01`,
    reference: `REF-${mark}`,
    consumerReference: `CONS-${mark}`,
    promotion: `PROMO-${mark}`,
    extra: `EXTRA-${mark}`,
    itemName: `Mug for ${mark}`,
    itemExtra: `ENGRAVE-${mark}`,
    filename: `invoice-${mark}.pdf`,
    comments: `Comment-${mark}`,
    returnExtra: `RET-${mark}`,
    unknown: `Consignee-${mark}`,
    quoted: `Quoted-${mark}`,
    documentText: `Document-${mark}`,
  };
}

const makeAddress = (mark: string) => ({
  firstName: `First${mark}`,
  lastName: `Last${mark}`,
  prefix: `van${mark}`,
  street1: `Street${mark}`,
  houseNumber: `4711${mark}`,
  houseNumberExtension: `ext${mark}`,
  city: `City${mark}`,
  postcode: `98${mark}`,
});
type Person = ReturnType<typeof makePerson>;

/** An order that went through all flows. */
export interface PlacedOrder {
  readonly number: string;
  readonly id: number;
  readonly shipmentId: number;
  readonly authorizationId: number;
  readonly texts: Person;
  /** The texts to search for: those of the person, and documents. */
  readonly searched: readonly string[];
}

interface Flows {
  readonly database: TestDatabase;
  readonly sandbox: SandboxControl;
  readonly outbox: ReturnType<typeof usePusher>;
  readonly pull: Pull;
}

/** Inserts, ships and returns an order, so that every table of orders holds data of its person. */
export async function placeOrder(flows: Flows, number: string, mark: string): Promise<PlacedOrder> {
  const { database, sandbox, outbox } = flows;
  const [texts, address] = [makePerson(mark), makeAddress(mark)];
  const content = (await writePage([texts.documentText])).toString('base64');
  await outbox.insert(
    'order.create',
    number,
    orderPayload(number, {
      email: texts.email,
      phoneNumber: texts.phone,
      vatNumber: texts.vat,
      reference: texts.reference,
      consumerReference: texts.consumerReference,
      promotionCode: texts.promotion,
      metadata: { extra1: texts.extra },
      items: [
        {
          sku: 'MUG-BLUE',
          quantity: 2,
          price: '9.95',
          vat: 0.21,
          name: texts.itemName,
          metadata: { extra6: texts.itemExtra },
        },
      ],
      deliveryAddress: { ...address, countryCode: 'NL' },
      attachments: [
        { filename: texts.filename, content },
        { filename: `2-${texts.filename}`, content },
      ],
    }),
  );
  await outbox.insert('order.update', number, { email: texts.secondEmail });
  await outbox.push();
  const { shipmentIds } = await sandbox.call<{ shipmentIds: number[] }>('POST', '/_sandbox/ship', {
    client: 'default',
    externalOrderNumber: number,
  });
  const shipmentId = shipmentIds[0] ?? 0;
  await flows.pull('pull-shipments');
  const [row] = await database.query<{ id: number; itemId: number }>(
    `select s.order_id::int as id, i.id::int as "itemId" from fulfilment.shipments s
     join fulfilment.shipment_items i on i.client = s.client and i.shipment_id = s.id where s.id = $1`,
    [shipmentId],
  );
  await outbox.insert('return_label.create', number, { shipmentId });
  await outbox.insert('return.create', `R-${number}`, {
    shipmentId,
    comments: texts.comments,
    metadata: { note: texts.returnExtra },
    items: [
      {
        shipmentItemId: row?.itemId,
        quantity: 1,
        reason: 'REGRET',
        metadata: { note: texts.returnExtra },
      },
    ],
  });
  const dead = await outbox.insert('order.update', number, { unknownMember: texts.quoted });
  await outbox.push();
  const words = `refused: «${texts.quoted}»`;
  await database.query(`
    update fulfilment.outbox set last_error = '${words}' where id = ${dead} and status = 'dead';
    update sync.outbox_attempts set error = '${words}' where outbox_id = ${dead}`);
  const [announced] = await database.query<{ id: number }>(
    `select id::int from fulfilment.return_merchandise_authorizations where shipment_id = $1`,
    [shipmentId],
  );
  const [label] = await outbox.rows(`kind = 'return_label.create' and reference = $1`, [number]);
  return {
    number,
    id: row?.id ?? 0,
    shipmentId,
    authorizationId: announced?.id ?? 0,
    texts,
    searched: [
      ...Object.values(texts),
      ...Object.values(address),
      ...[content, String(label?.result?.content)],
    ],
  };
}

/** Returns the tables of the whole database that contain any of these texts, each with the text. */
export async function findTexts(
  database: TestDatabase,
  texts: readonly string[],
): Promise<string[]> {
  const tables = await database.query<{ name: string }>(`
    select format('%I.%I', n.nspname, c.relname) as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'm') and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
    order by 1`);
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await database.query<{ text: string }>(
      `select distinct w.text from ${name} t join unnest($1::text[]) as w (text) on position(lower(w.text) in lower(t::text)) > 0`,
      [texts],
    );
    found.push(...rows.map(({ text }) => `${name}: ${text}`));
  }
  return found;
}
