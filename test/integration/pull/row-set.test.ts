import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { parseExact } from '../../../src/core/json.ts';
import { rowSet } from '../../../src/pull/sql/mirror-tables.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

const types = {
  id: 'bigint',
  sku: 'text',
  quantity: 'integer',
  price: 'numeric',
  on_hold: 'boolean',
  ordered_on: 'date',
  shipped_on: 'timestamptz',
  serial_numbers: 'text[]',
  metadata: 'jsonb',
  raw: 'jsonb',
};

/** Reads rows back as text, so that no parser of the client hides a difference. */
const readBack = async (rows: readonly object[]) => {
  const columns = Object.keys(types).map(
    (column) => sql`${sql.ref(column)}::text as ${sql.ref(column)}`,
  );
  const found = await sql<Record<string, string | null>>`
    select ${sql.join(columns)}
    from ${rowSet(types, rows)}`.execute(database.db);
  return found.rows;
};

test('texts are the same in Postgres', async () => {
  const texts = [
    'plain',
    '',
    'NULL',
    'with "quotes", commas, {braces} and (brackets)',
    String.raw`back\slash \n \" \\`,
    'two\nlines\r\nand a\ttab',
    ' spaces ',
    '𝄞 ü',
    "it's $1",
  ];
  const rows = texts.map((text, id) => ({
    ...{ id, sku: text, serial_numbers: [text, 'x'], metadata: { [text]: text }, raw: [text] },
  }));
  const { rows: found } = await sql<Record<string, string>>`
    select i.sku, i.serial_numbers[1] as serial, m.key, m.value, i.raw ->> 0 as raw
    from ${rowSet(types, rows)} cross join jsonb_each_text(i.metadata) as m order by i.id`.execute(
    database.db,
  );
  expect(found).toEqual(
    texts.map((text) => ({ sku: text, serial: text, key: text, value: text, raw: text })),
  );
});

test('each type keeps its values, and a missing value is null', async () => {
  const full = {
    id: 9_007_199_254_740_991,
    sku: 'A',
    quantity: -2_147_483_648,
    price: '12.3400',
    on_hold: false,
    ordered_on: '2026-01-31',
    shipped_on: '2026-01-31T10:11:12.123456+01:00',
    serial_numbers: [],
    metadata: parseExact('{"n": 1.10}'),
    raw: parseExact('{"exact": 12345678901234567890.10}'),
  };
  const empty = { id: 2, raw: {} };
  const nulls = Object.fromEntries(Object.keys(types).map((column) => [column, null]));
  expect(await readBack([full, empty])).toEqual([
    {
      id: '9007199254740991',
      sku: 'A',
      quantity: '-2147483648',
      price: '12.3400',
      on_hold: 'false',
      ordered_on: '2026-01-31',
      shipped_on: '2026-01-31 09:11:12.123456+00',
      serial_numbers: '{}',
      metadata: '{"n": 1.10}',
      raw: '{"exact": 12345678901234567890.10}',
    },
    { ...nulls, id: '2', raw: '{}' },
  ]);
});
