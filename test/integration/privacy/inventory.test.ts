import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { personalColumns } from '../../../src/erp/mirror/personal-columns.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();
const page = readFileSync(fileURLToPath(new URL('../../../docs/privacy.md', import.meta.url)), 'utf8');

/** The rows of the inventory in docs/privacy.md: table, erased, kept and other columns. */
const inventory = page
  .slice(page.indexOf('## Inventory'))
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) => line.split('|').map((cell) => [...cell.matchAll(/`([\w.]+)`/g)].map(([, name]) => name ?? '')))
  .map(([, table = [], ...classes]) => ({ table: table[0] ?? '', classes }));

test('docs/privacy.md classifies every column of every table, each once', async () => {
  const columns = await database.query<{ name: string }>(`
    select format('%s.%s.%s', c.table_schema, c.table_name, c.column_name) as name
    from information_schema.columns c
    join information_schema.tables t using (table_schema, table_name)
    where c.table_schema in ('fulfilment', 'sync') and t.table_type = 'BASE TABLE'
    order by 1`);
  const classified = inventory.flatMap(({ table, classes }) => classes.flat().map((column) => `${table}.${column}`));
  expect(classified.toSorted()).toEqual(columns.map(({ name }) => name).toSorted());
});

test('the columns of orders that are erased are those that docs/privacy.md names', () => {
  const mirrored = inventory
    .filter(({ table }) => table.replace('fulfilment.', '') in personalColumns)
    .map(({ table, classes }) => [table.replace('fulfilment.', ''), classes[0]?.toSorted()]);
  const masked = Object.entries(personalColumns).map(([table, columns]) => [table, Object.keys(columns).toSorted()]);
  expect(Object.fromEntries(mirrored)).toEqual(Object.fromEntries(masked));
});

test('the statements of docs/privacy.md run', async () => {
  const statements = [...page.matchAll(/```sql\n(.*?)```/gs)].map(([, text]) => text ?? '');
  expect(statements.length).toBeGreaterThan(0);
  for (const statement of statements) expect(await database.query(statement)).toEqual([]);
});
