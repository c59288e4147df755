/**
 * The command `export`: rows of a table or view of schema fulfilment as CSV or NDJSON. They stream from Postgres to the
 * output, so memory does not grow with their number.
 */

import { createWriteStream, renameSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { readConfig } from '../../../config/env.ts';
import { makePoolConfig, openDatabase } from '../../erp/connection/pool.ts';
import type { ExportChoice } from '../../erp/export/copy-statement.ts';
import { exportRows, type RowStream } from '../../erp/export/export-rows.ts';
import { type Relation, readRelations } from '../../erp/export/relations.ts';
import { openPool } from '../deps/database.ts';
import { silentLogger } from '../logging/logger.ts';
import { chooseExport, type ExportOptions, findRelation } from './choose-export.ts';
import { createLineEnds } from './line-ends.ts';

/** Longest time that an export may take. Meanwhile Postgres keeps all versions of rows that the export may read. */
const maxExportMs = 6 * 3_600_000;

/**
 * Writes the rows of a table or view to standard output or to a file. A summary goes to standard error.
 * @throws UsageError if a name, option or combination is wrong
 */
export async function exportCommand(name: string, options: ExportOptions): Promise<number> {
  const { DATABASE_URL = '' } = readConfig({ database: true, clients: false });
  // pg has a limit of its own for each query, which it does not end for a COPY. That of the server counts.
  const { query_timeout: _limit, ...poolConfig } = makePoolConfig(DATABASE_URL, 'export', 1, maxExportMs);
  const pool = openPool(poolConfig, silentLogger);
  try {
    const relation: Relation = findRelation(await readRelations(openDatabase(pool)), name);
    const choice = chooseExport(relation, options);
    const connection = await pool.connect();
    try {
      const rows = await exportRows(connection, relation, choice);
      if (await writeRows(rows, choice, options.output)) reportEnd(rows, relation);
    } finally {
      // The transaction only read, and may still be in the middle of a COPY.
      connection.release(true);
    }
    return 0;
  } finally {
    await pool.end();
  }
}

/** Writes the rows. Returns false if the reader of standard output, such as `head`, wants no more. */
async function writeRows({ bytes }: RowStream, { format }: ExportChoice, output: string | undefined): Promise<boolean> {
  const shape = format === 'csv' ? createLineEnds() : new PassThrough();
  if (output !== undefined && output !== '-') {
    // The file gets its name when it is complete. It may hold personal data.
    const unfinished = `${output}.part`;
    await pipeline(bytes, shape, createWriteStream(unfinished, { mode: 0o600 }));
    renameSync(unfinished, output);
    return true;
  }
  try {
    await pipeline(bytes, shape, process.stdout, { end: false });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EPIPE') return false;
    throw error;
  }
}

function reportEnd({ bytes, seq }: RowStream, { name }: Relation): void {
  const next = seq === null ? '' : ` Changes after this export: --since ${seq}`;
  process.stderr.write(`${bytes.rowCount} rows of ${name}.${next}\n`);
}
