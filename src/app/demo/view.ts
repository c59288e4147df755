import { formatSpan } from '../../core/time.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { type JobStatus, readJobStatus } from '../../erp/reports/job-status.ts';
import { countRows, readLatestLines, type ShippedLine } from '../../erp/reports/stored-rows.ts';
import { formatTable } from '../terminal/table.ts';

const clearScreen = '\u001b[H\u001b[2J';

/** Shows what the worker does: a table that is redrawn on a terminal, else one line per finished run. */
export class DemoView {
  readonly #db: Database;
  readonly #heading: string;
  readonly #tables: readonly string[];
  readonly #lastRuns = new Map<string, number>();

  /** @param tables tables of schema `fulfilment` whose rows are counted */
  constructor(db: Database, heading: string, tables: readonly string[]) {
    this.#db = db;
    this.#heading = heading;
    this.#tables = tables;
  }

  async draw(): Promise<void> {
    const rows = await readJobStatus(this.#db);
    if (process.stdout.isTTY) process.stdout.write(`${clearScreen}${await this.#screen(rows)}\n`);
    else this.#writeLines(rows);
  }

  async #screen(rows: readonly JobStatus[]): Promise<string> {
    const table = formatTable(
      ['stream', 'state', 'last run', 'fetched', 'changed', 'lag'],
      rows.map((row) => [
        row.stream ?? row.job,
        row.running ? 'running' : (row.lastOutcome ?? 'waiting'),
        row.lastStartedAt?.toLocaleTimeString() ?? '-',
        row.lastFetched,
        row.lastChanged,
        formatSpan(row.lagSeconds),
      ]),
    );
    const counts = await countRows(this.#db, this.#tables);
    const lines = (await readLatestLines(this.#db, 5)).map(describeLine);
    const errors = rows.flatMap(({ job, lastError }) => (lastError === null ? [] : [`${job}: ${lastError}`]));
    return [
      this.#heading,
      '',
      table,
      '',
      `Rows: ${this.#tables.map((name) => `${name} ${counts[name]}`).join(', ')}`,
      '',
      'Latest lines in fulfilment.shipments:',
      ...lines,
      ...errors,
      '',
      'Ctrl-C ends it.',
    ].join('\n');
  }

  #writeLines(rows: readonly JobStatus[]): void {
    for (const { job, lastStartedAt, lastOutcome, lastFetched, lastChanged, lastError, running } of rows) {
      const startedMs = lastStartedAt?.getTime() ?? 0;
      if (running || startedMs === 0 || this.#lastRuns.get(job) === startedMs) continue;
      this.#lastRuns.set(job, startedMs);
      const outcome = lastError === null ? `${lastFetched} fetched, ${lastChanged} changed` : lastError;
      process.stdout.write(`${lastStartedAt?.toISOString()} ${job} ${lastOutcome}: ${outcome}\n`);
    }
  }
}

/** Describes one line of a shipment. */
export function describeLine({ externalOrderNumber, status, warehouseCode, quantity, sku }: ShippedLine): string {
  return `  order ${externalOrderNumber}: ${quantity} x ${sku} from ${warehouseCode}, ${status}`;
}
