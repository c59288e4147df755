import type { Command } from 'commander';
import { listQuarantined, type QuarantineRow, readQuarantined } from '../../pull/sql/quarantine.ts';
import {
  addCommand,
  asJson,
  assertClientKnown,
  type CommonOptions,
  exitWith,
  findStream,
  forClient,
  parseId,
  print,
  printError,
  printFacts,
  printJson,
  printRows,
  streamNames,
  withDatabase,
} from '../command-line.ts';
import type { Columns } from '../table.ts';

interface QuarantineOptions extends CommonOptions {
  readonly stream?: string;
}

const rowColumns: Columns<QuarantineRow> = {
  number: ({ id }) => id,
  client: ({ client }) => client,
  stream: ({ stream }) => stream,
  id: ({ resourceId }) => resourceId,
  member: ({ memberPath }) => memberPath || '-',
  reason: ({ reason }) => reason,
  times: ({ times }) => times,
  'first seen': ({ firstSeenAt }) => firstSeenAt,
  'last seen': ({ lastSeenAt }) => lastSeenAt,
};

/**
 * Prints the rows in quarantine. Leaves out the resources themselves, because they hold personal
 * data.
 */
async function quarantineListCommand(options: QuarantineOptions): Promise<number> {
  const { client, stream } = options;
  if (stream !== undefined) findStream(stream);
  const rows = await withDatabase('quarantine', async (db) => {
    const found = await listQuarantined(db, { client: client ?? null, stream: stream ?? null });
    if (found.length === 0) await assertClientKnown(db, client);
    return found;
  });

  if (printRows(rows, rowColumns, 'Nothing is in quarantine.', options))
    print(
      '\nTo see one in full: quarantine show <number>. ' +
        'To decode again, after an upgrade: quarantine replay [stream]',
    );
  return 0;
}

/** Prints one resource in full, as it was received. */
async function quarantineShowCommand(number: string, { json }: CommonOptions): Promise<number> {
  const id = parseId(
    number,
    'the number of a quarantine row; see: fulfilment-sync quarantine list',
  );
  const row = await withDatabase('quarantine', (db) => readQuarantined(db, id));

  if (row === null) {
    printError(`There is no row ${number} in quarantine; see: fulfilment-sync quarantine list`);
    return 1;
  }

  if (json) printJson(row);
  else {
    const { document, ...about } = row;
    printFacts(about);
    print(`\n${document}`);
  }
  return 0;
}

/** Adds the commands `quarantine …`. */
export function addQuarantineCommands(cli: Command): void {
  const name = 'fulfilment-sync quarantine';
  const quarantine = addCommand(cli, {
    name: 'quarantine',
    description: 'show or replay the resources that could not be decoded or stored',
    examples: `${name} list`,
  });

  addCommand(quarantine, {
    name: 'list',
    description: 'show the resources in quarantine, with the member that is wrong',
    examples: `${name} list --stream shipments`,
  })
    .option(...forClient)
    .option('--stream <stream>', `only this stream: ${streamNames.join(', ')}`)
    .option(...asJson)
    .action(exitWith(quarantineListCommand));

  addCommand(quarantine, {
    name: 'show',
    description: 'show one resource in full; it may contain personal data',
    examples: `${name} show 7`,
  })
    .argument('<number>', 'number of the row, as list shows it')
    .option(...asJson)
    .action(exitWith(quarantineShowCommand));

  addCommand(quarantine, {
    name: 'replay',
    description: 'decode the resources in quarantine again, after an upgrade',
    examples: `${name} replay shipments`,
  })
    .argument('[stream]', streamNames.join(', '))
    .option(...forClient)
    .option(...asJson)
    // Only this command calls the service.
    .action(
      exitWith(async (stream: string | undefined, options: QuarantineOptions) =>
        (await import('./rescan.ts')).quarantineReplayCommand(stream, options),
      ),
    );
}
