import parts from './generated/schema-parts.json' with { type: 'json' };

/** The type of a column, as Postgres names it. */
export interface ColumnType {
  readonly type: string;
  readonly nullable: boolean;
}

const columnPart = /^column fulfilment\.(\w+)\.(\w+) (.+?)( not null)?$/;

const tables = new Map<string, Map<string, ColumnType>>();
for (const part of parts) {
  const [, table, column, type, notNull] = columnPart.exec(part) ?? [];
  if (table === undefined || column === undefined || type === undefined) continue;

  const columns = tables.get(table) ?? new Map<string, ColumnType>();
  tables.set(table, columns.set(column, { type, nullable: notNull === undefined }));
}

/** Returns the columns of a table or a view of schema fulfilment, as the migrations make them. */
export const readColumns = (table: string): ReadonlyMap<string, ColumnType> =>
  tables.get(table) ?? new Map();
