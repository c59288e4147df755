import type pg from 'pg';
import { Agent, request } from 'undici';

const pageSize = 100;

/** A shipment of a page, with its items. */
interface Resource {
  readonly id: number | string;
  readonly attributes: Record<string, unknown>;
  readonly relationships: Record<string, { readonly data?: { readonly id?: unknown } }>;
  readonly included?: readonly Resource[];
}
export type Page = readonly Resource[];

/** Reads pages of shipments one after the other, in the simplest way. */
export class PageReader {
  readonly #base: URL;
  readonly #agent = new Agent();
  #token = '';

  constructor(base: URL) {
    this.#base = base;
  }

  /**
   * Reads to the end of the list.
   * @param from query to begin with; null: the first page
   * @param onPage receives each page
   * @returns the query after the last page
   */
  async read(from: string | null, onPage: (page: Page) => void): Promise<string> {
    if (this.#token === '') await this.#logIn();
    let query = from ?? `page[size]=${pageSize}&include=shipmentItems`;
    for (;;) {
      const { body } = await request(new URL(`/v3/shipments?${query}`, this.#base), {
        dispatcher: this.#agent,
        headers: { authorization: `bearer ${this.#token}` },
      });
      const { data, links } = (await body.json()) as {
        data: Page;
        links: { next: { href: string } | null };
      };
      onPage(data);
      if (links.next === null) return lastQuery(query, data);
      query = new URL(links.next.href, this.#base).search.slice(1);
    }
  }

  async close(): Promise<void> {
    await this.#agent.close();
  }

  async #logIn(): Promise<void> {
    const form = new URLSearchParams({
      grant_type: 'password',
      username: 'default',
      password: 'default',
    });
    const answer = await fetch(new URL('/token', this.#base), { method: 'POST', body: form });
    this.#token = ((await answer.json()) as { access_token: string }).access_token;
  }
}

/**
 * Returns the query after the last page. By default, the sandbox's cursor is the last id of a page.
 */
function lastQuery(query: string, data: Page): string {
  const after = new URLSearchParams(query);
  const last = data.at(-1)?.id;
  if (last !== undefined) after.set('page[cursor]', String(last));
  return after.toString();
}

const columns = {
  shipments: `id bigint, status text, ready_to_pick_on timestamptz, ready_to_ship_on timestamptz, shipped_on timestamptz,
    warehouse_code text, return_label text, order_id bigint, order_type_id bigint, shipping_method_id bigint, raw jsonb, read_no bigint`,
  shipment_items: `id bigint, shipment_id bigint, sku text, quantity int, lot_number text, expiration_date date,
    serial_numbers text[], order_item_id bigint, product_id bigint, raw jsonb`,
};
type Table = keyof typeof columns;
const readColumnNames = (table: Table) =>
  columns[table].split(',').map((column) => column.trim().split(' ')[0] as string);

/** Creates copies of the two tables, with their indexes, in these schemas. */
export async function prepareTables(pool: pg.Pool, schemas: readonly string[]): Promise<void> {
  for (const schema of schemas) {
    await pool.query(`create schema ${schema}`);
    for (const table of Object.keys(columns))
      await pool.query(`create table ${schema}.${table} (like fulfilment.${table} including all)`);
  }
}

/** Converts a page to the rows of the two tables. */
export function toRows(page: Page): Record<Table, Record<string, unknown>[]> {
  const shipments = page.map((resource) => {
    const { included: _, ...raw } = resource;
    const { attributes: a, relationships: r } = resource;
    const readRelatedId = (name: string) => r[name]?.data?.id ?? null;
    return {
      id: resource.id,
      status: a.status,
      ready_to_pick_on: a.readyToPickOn,
      ready_to_ship_on: a.readyToShipOn,
      shipped_on: a.shippedOn,
      warehouse_code: a.warehouseCode,
      return_label: a.returnLabel,
      order_id: readRelatedId('order'),
      order_type_id: readRelatedId('orderType'),
      shipping_method_id: readRelatedId('shippingMethod'),
      raw,
      read_no: 1,
    };
  });
  const items = page.flatMap((parent) =>
    (parent.included ?? []).map((item) => ({
      id: item.id,
      shipment_id: parent.id,
      sku: item.attributes.sku,
      quantity: item.attributes.quantity,
      lot_number: item.attributes.lotNumber,
      expiration_date: item.attributes.expirationDate,
      serial_numbers: item.attributes.serialNumbers,
      order_item_id: item.relationships.orderItem?.data?.id ?? null,
      product_id: item.relationships.product?.data?.id ?? null,
      raw: item,
    })),
  );
  return { shipments, shipment_items: items };
}

/** Writes the rows of a page with two upserts in one transaction. */
export async function bulkUpsert(
  client: pg.PoolClient,
  schema: string,
  page: ReturnType<typeof toRows>,
): Promise<void> {
  await client.query('begin');
  for (const table of Object.keys(columns) as Table[]) {
    const names = readColumnNames(table);
    const assignments = names.map((name) => `${name} = excluded.${name}`).join(', ');
    await client.query({
      name: `upsert ${schema}.${table}`,
      text: `insert into ${schema}.${table} (client, ${names}) select 'default', ${names}
        from jsonb_to_recordset($1) as i (${columns[table]}) on conflict (client, id) do update set ${assignments}`,
      values: [JSON.stringify(page[table])],
    });
  }
  await client.query('commit');
}

/** Writes rows one by one, each with one statement in one transaction. */
export async function insertOneByOne(
  client: pg.PoolClient,
  schema: string,
  page: ReturnType<typeof toRows>,
): Promise<void> {
  for (const table of Object.keys(columns) as Table[]) {
    const names = readColumnNames(table);
    for (const row of page[table]) {
      await client.query({
        name: `insert ${schema}.${table}`,
        text: `insert into ${schema}.${table} (client, ${names}) values ('default', ${names.map((_, index) => `$${index + 1}`)})`,
        values: names.map((name) => (name === 'raw' ? JSON.stringify(row[name]) : row[name])),
      });
    }
  }
}
