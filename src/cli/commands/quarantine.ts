import { type Command, Option } from 'commander';
import { listQuarantined, readQuarantined } from '../../pull/sql/quarantine.ts';
import {
  addCommand,
  asJson,
  assertClientKnown,
  type CommonOptions,
  exitWith,
  forClient,
  parseId,
  print,
  printError,
  printFacts,
  printJson,
  printRows,
  streamArgument,
  streamNames,
  withDatabase,
} from '../command-line.ts';

interface QuarantineOptions extends CommonOptions {
  readonly stream?: string;
}

const shownMembers = [
  ...(['id', 'client', 'stream', 'resourceId', 'memberPath', 'reason', 'times'] as const),
  ...(['firstSeenAt', 'lastSeenAt'] as const),
];

/**
 * Prints the rows in quarantine. Leaves out the resources themselves, because they hold personal
 * data.
 */
async function quarantineListCommand(options: QuarantineOptions): Promise<number> {
  const { client, stream } = options;
  const rows = await withDatabase('quarantine', async (db) => {
    const found = await listQuarantined(db, { client: client ?? null, stream: stream ?? null });
    if (found.length === 0) await assertClientKnown(db, client);
    return found;
  });

  if (printRows(rows, 'Nothing is in quarantine.', options, shownMembers))
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
  const quarantine = addCommand(cli, {
    name: 'quarantine',
    description: 'show or replay the resources that could not be decoded or stored',
    examples: 'list',
  });

  addCommand(quarantine, {
    name: 'list',
    description: 'show the resources in quarantine, with the member that is wrong',
    examples: '--stream shipments',
  })
    .option(...forClient)
    .addOption(new Option('--stream <stream>', 'only this stream').choices(streamNames))
    .option(...asJson)
    .action(exitWith(quarantineListCommand));

  addCommand(quarantine, {
    name: 'show',
    description: 'show one resource in full; it may contain personal data',
    examples: '7',
  })
    .argument('<number>', 'number of the row, as list shows it')
    .option(...asJson)
    .action(exitWith(quarantineShowCommand));

  addCommand(quarantine, {
    name: 'replay',
    description: 'decode the resources in quarantine again, after an upgrade',
    examples: 'shipments',
  })
    .addArgument(streamArgument('[stream]'))
    .option(...forClient)
    .option(...asJson)
    // Only this command calls the service.
    .action(
      exitWith(async (stream: string | undefined, options: QuarantineOptions) =>
        (await import('./rescan.ts')).quarantineReplayCommand(stream, options),
      ),
    );
}
