import type { ChildDeclaration, Stream } from '../../sync/reading/stream.ts';
import type { ResourceFields } from '../../warehouse/decoding/fields.ts';
import type { StateEntry, StateResource } from './sandbox-state.ts';

/** The values that a row of a table must have, by column. */
export type ExpectedRow = Readonly<Record<string, unknown>>;

/** Returns the name of the sandbox's list of a stream: `returnItems` of the stream `return-items`. */
export const toListName = ({ name }: Stream) => name.replace(/-[a-z]/g, (letter) => letter.slice(1).toUpperCase());

/** Makes the rows that the tables of a stream must hold from the sandbox's list of one client, by table. */
export function makeExpectedRows(stream: Stream, entries: readonly StateEntry[]): ReadonlyMap<string, ExpectedRow[]> {
  const { table, fields, children, kept } = stream.resource;
  const visible = entries.filter((entry) => entry.visible);
  const rows = new Map<string, ExpectedRow[]>(
    [table, ...children.map((child) => child.table)].map((name) => [name, []]),
  );
  for (const { resource, instants, included, items } of visible) {
    const own = toRow(fields, resource, instants);
    const whole = kept && { [kept.column]: included.find(({ type }) => type === kept.relationship) ?? null };
    rows.get(table)?.push({ ...own, ...whole });
    for (const child of children)
      for (const related of findChildren(child, resource, [...included, ...items]))
        rows.get(child.table)?.push({
          ...toRow(child.fields, related, {}),
          [child.parentColumn]: resource.id,
          ...child.constants,
        });
  }
  return rows;
}

/** Returns the included resources of a kind, and only the linked one if the parent links to one. */
function findChildren(
  { fields, listedIn }: ChildDeclaration,
  parent: StateResource,
  related: readonly StateResource[],
) {
  const link = listedIn === null ? null : readLink(parent, listedIn);
  return related.filter(({ type, id }) => type === fields.type && (link === null || id === link));
}

const readLink = ({ relationships }: StateResource, name: string): number | null => {
  const data = relationships?.[name]?.data ?? null;
  return data === null || Array.isArray(data) ? null : data.id;
};

function toRow({ columns }: ResourceFields, resource: StateResource, instants: StateEntry['instants']): ExpectedRow {
  const values = columns.map(({ from, member, column, field: { sql } }) => {
    if (from === 'relationships') return [column, readLink(resource, member)];
    const value = resource.attributes[member] ?? null;
    return [column, sql === 'timestamptz' ? toInstant(instants[member] ?? value) : toValue(sql, value)];
  });
  return { ...Object.fromEntries(values), id: resource.id, raw: resource };
}

/** Returns an instant as Postgres writes it in JSON: without zeros at the end of the fraction. */
const toInstant = (text: unknown) =>
  typeof text === 'string'
    ? text.replace(/(?<!0)0+Z$/, (zeros) => (text.includes('.') ? 'Z' : zeros)).replace(/\.?Z$/, '+00:00')
    : null;

/** Returns a value as Postgres writes it in JSON. */
const toValue = (sql: string | null, value: unknown) =>
  sql === 'numeric' && value !== null ? Number(value) : sql === 'text[]' ? (value ?? []) : value;
