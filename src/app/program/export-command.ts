import { type Command, Option } from 'commander';
import type { ExportOptions } from '../export/choose-export.ts';
import { setExitCode } from './options.ts';

/** Adds `export`, which writes rows as CSV or NDJSON. */
export function addExportCommand(cli: Command): void {
  cli
    .command('export')
    .description('write the rows of a table or view of schema fulfilment as CSV or NDJSON')
    .argument('<view>', 'table or view, such as shipment_lines; a wrong name lists all')
    .addOption(new Option('--format <format>', 'format of the rows').choices(['csv', 'ndjson']).default('csv'))
    .option('--client <key>', 'only this client')
    .option('--since <change>', 'only rows that changed after this seq of the feed, or since this time')
    .option('--columns <names>', 'only these columns, comma separated')
    .option('--output <file>', 'write to this file, which appears when it is complete; - is standard output')
    .addHelpText(
      'after',
      '\nThe rows are those of one moment. Many hold personal data: orders, order_addresses, outbox, documents, and raw.' +
        '\nA last line on standard error tells the seq with which the next export continues.' +
        '\n\nExamples:\n  fulfilment-sync export shipment_lines --client default > lines.csv' +
        '\n  fulfilment-sync export orders --columns id,external_order_number,on_hold --since 2026-11-01' +
        '\n  fulfilment-sync export shipments --format ndjson --since 120000 --output shipments.ndjson',
    )
    .action(async (view: string, options: ExportOptions) =>
      setExitCode((await import('../export/export-command.ts')).exportCommand(view, options)),
    );
}
