import relations from './generated/columns.json' with { type: 'json' };

/** The type of a column, as Postgres names it. */
export interface ColumnType {
  readonly type: string;
  readonly nullable: boolean;
}

const types: Readonly<Record<string, Readonly<Record<string, string>>>> = relations;
const notNull = ' not null';

/** Returns the columns of a table or a view of schema fulfilment, as the migrations make them. */
export const readColumns = (relation: string): ReadonlyMap<string, ColumnType> =>
  new Map(
    Object.entries(types[relation] ?? {}).map(([column, type]) => [
      column,
      { type: type.replace(notNull, ''), nullable: !type.endsWith(notNull) },
    ]),
  );
