import type { Command } from 'commander';
import { listQuarantined, readQuarantined } from '../../erp/pull/quarantine.ts';
import {
  type CommonOptions,
  findStream,
  parseId,
  print,
  printError,
  printJson,
  printStyled,
  setExitCode,
  streamNames,
  withDatabase,
} from '../cli/command-line.ts';
import { formatTable } from '../terminal/table.ts';

interface QuarantineOptions extends CommonOptions {
  readonly stream?: string;
}

/** Prints the rows in quarantine. Leaves out the resources themselves, because they hold personal data. */
async function quarantineListCommand({ client, stream, json }: QuarantineOptions): Promise<number> {
  if (stream !== undefined) findStream(stream);
  const rows = await withDatabase('quarantine', (db) =>
    listQuarantined(db, { client: client ?? null, stream: stream ?? null }),
  );
  if (json) printJson(rows);
  else if (rows.length === 0) print('Nothing is in quarantine.');
  else {
    const cells = rows.map((row) => [
      row.id,
      row.client,
      row.stream,
      row.resourceId ?? '-',
      row.memberPath || '-',
      row.reason,
      row.times,
      row.firstSeenAt.toISOString().slice(0, 19),
      row.lastSeenAt.toISOString().slice(0, 19),
    ]);
    printStyled(
      formatTable(['number', 'client', 'stream', 'id', 'member', 'reason', 'times', 'first seen', 'last seen'], cells),
    );
    print(
      '\nTo see one in full: quarantine show <number>. To decode again, after an upgrade: quarantine replay [stream]',
    );
  }
  return 0;
}

/** Prints one resource in full, as it was received. */
async function quarantineShowCommand(number: string, { json }: CommonOptions): Promise<number> {
  const id = parseId(number, 'the number of a quarantine row; see: fulfilment-sync quarantine list');
  const row = await withDatabase('quarantine', (db) => readQuarantined(db, id));
  if (row === null) {
    printError(`There is no row ${number} in quarantine; see: fulfilment-sync quarantine list`);
    return 1;
  }
  if (json) printJson(row);
  else {
    const { document, ...about } = row;
    for (const [name, value] of Object.entries(about))
      print(`${name}: ${value instanceof Date ? value.toISOString() : value}`);
    print(`\n${document}`);
  }
  return 0;
}

/** Adds the commands `quarantine …`. */
export function addQuarantineCommands(cli: Command): void {
  const quarantine = cli
    .command('quarantine')
    .description('show or replay the resources that could not be decoded or stored')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine list');
  quarantine
    .command('list')
    .description('show the resources in quarantine, with the member that is wrong')
    .option('--client <key>', 'only this client')
    .option('--stream <stream>', `only this stream: ${streamNames.join(', ')}`)
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine list --stream shipments')
    .action((options: QuarantineOptions) => setExitCode(quarantineListCommand(options)));
  quarantine
    .command('show')
    .description('show one resource in full; it may contain personal data')
    .argument('<number>', 'number of the row, as list shows it')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine show 7')
    .action((number: string, options: QuarantineOptions) => setExitCode(quarantineShowCommand(number, options)));
  quarantine
    .command('replay')
    .description('decode the resources in quarantine again, after an upgrade')
    .argument('[stream]', streamNames.join(', '))
    .option('--client <key>', 'only this client')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine replay shipments')
    .action(async (stream: string | undefined, options: QuarantineOptions) =>
      // Only this command calls the service.
      setExitCode((await import('./rescan.ts')).quarantineReplayCommand(stream, options)),
    );
}
