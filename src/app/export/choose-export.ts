import {
  type ExportChoice,
  type ExportFormat,
  findTimeColumn,
  isInFeed,
  type Since,
} from '../../erp/export/copy-statement.ts';
import type { Relation } from '../../erp/export/relations.ts';
import { UsageError } from '../cli/usage.ts';

export interface ExportOptions {
  readonly format: ExportFormat;
  readonly client?: string;
  readonly since?: string;
  readonly columns?: string;
  readonly output?: string;
}

const names = (parts: readonly { readonly name: string }[]) => parts.map(({ name }) => name).join(', ');

/**
 * Returns the table or view of this name, with or without its schema.
 * @throws UsageError with the names of all that can be exported
 */
export function findRelation(relations: readonly Relation[], name: string): Relation {
  if (relations.length === 0)
    throw new UsageError(
      'DATABASE_URL shows no schema fulfilment; migrate first, or use a role with the grants of fulfilment_reader',
    );
  const wanted = name.replace(/^fulfilment\./, '');
  const found = relations.find((relation) => relation.name === wanted);
  if (found === undefined)
    throw new UsageError(`There is no table or view ${name} in schema fulfilment; there are ${names(relations)}`);
  return found;
}

/**
 * Returns what to export.
 * @throws UsageError if a column is unknown, or if the table or view cannot be restricted in this way
 */
export function chooseExport(relation: Relation, { format, client, since, columns }: ExportOptions): ExportChoice {
  if (client !== undefined && !relation.columns.some(({ name }) => name === 'client'))
    throw new UsageError(`${relation.name} is not divided by client, so it takes no --client`);
  return {
    format,
    columns: columns === undefined ? relation.columns : chooseColumns(relation, columns),
    ...(client === undefined ? {} : { client }),
    ...(since === undefined ? {} : { since: readSince(relation, since) }),
  };
}

function chooseColumns(relation: Relation, list: string): Relation['columns'] {
  return list.split(',').map((part) => {
    const found = relation.columns.find(({ name }) => name === part.trim());
    if (found === undefined)
      throw new UsageError(
        `${relation.name} has no column ${part.trim() || '(empty)'}; its columns are ${names(relation.columns)}`,
      );
    return found;
  });
}

const time = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$/;

function readSince(relation: Relation, text: string): Since {
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text))) {
    if (!isInFeed(relation))
      throw new UsageError(`the feed does not name rows of ${relation.name}, so --since takes no seq here`);
    return { seq: Number(text) };
  }
  if (!time.test(text) || Number.isNaN(Date.parse(text)))
    throw new UsageError('--since takes a seq of the feed, such as 1200, or a time, such as 2026-11-01T08:00:00Z');
  if (findTimeColumn(relation) === null)
    throw new UsageError(
      `${relation.name} does not store when a row changed, so --since takes no time here${isInFeed(relation) ? '; give a seq of the feed' : ''}`,
    );
  return { time: text };
}
