import type { Command } from 'commander';
import { readConfig } from '../../../config/env.ts';
import { toIdentity, type WarehouseClient } from '../../../config/files.ts';
import { acceptIdentity } from '../../operate/sql/accept-identity.ts';
import { adviseParked } from '../../schedule/decide-start.ts';
import { toClientIdentity } from '../../schedule/runs.ts';
import { type KnownClient, readClients } from '../../service/sql/clients.ts';
import { holdsRuns, readHealth, type StoredHealth } from '../../service/sql/service-health.ts';
import {
  addCommand,
  asJson,
  type CommonOptions,
  exitWith,
  print,
  printRows,
  readOperatorName,
  selectClients,
  withDatabase,
} from '../command-line.ts';

interface ClientOptions extends CommonOptions {
  readonly keepCursors?: boolean;
}

/** Prints the clients, and why any of them is not read. */
async function clientListCommand(options: ClientOptions): Promise<number> {
  const configured = readConfig({ database: true, clients: false }).clients;
  const { known, holds } = await withDatabase('client', async (db) => ({
    known: await readClients(db),
    holds: (await readHealth(db)).filter(holdsRuns),
  }));

  const keys = new Set([...configured.map(({ key }) => key), ...known.map(({ client }) => client)]);
  const rows = [...keys].sort().map((client) => {
    const own = configured.find(({ key }) => key === client);
    const row = known.find((one) => one.client === client);
    const { baseUrl = null, timeZone = null } = own ?? {};
    return {
      client,
      baseUrl: baseUrl?.href ?? null,
      timeZone,
      holdUntil: null,
      ...describeState(row, own, holds),
    };
  });

  const none =
    'No client is set up; see WAREHOUSE_BASE_URL and WAREHOUSE_CLIENTS_FILE in .env.example';
  if (printRows(rows, none, options, ['client', 'baseUrl', 'timeZone', 'state']))
    for (const { client, because } of rows) if (because !== null) print(`\n${client}: ${because}`);
  return 0;
}

/**
 * What the state of a client is, and why. `holdUntil`: when its hold ends, and a run tries again.
 */
interface ClientState {
  readonly state: string;
  readonly because: string | null;
  readonly holdUntil?: Date | null;
}

function describeState(
  row: KnownClient | undefined,
  own: WarehouseClient | undefined,
  holds: readonly StoredHealth[],
): ClientState {
  if (own === undefined)
    return {
      state: 'not set up here',
      because: 'this process does not read it; its rows stay as they are',
    };

  if (row === undefined) return { state: 'new', because: 'no worker has started with it yet' };

  if (row.identity !== toIdentity(own)) {
    const because =
      `its rows come from ${row.baseUrl}, or from another account there; ` +
      adviseParked(row.client);
    return { state: 'parked', because };
  }

  const [hold] = holds
    .filter(({ client }) => client === row.client)
    .toSorted((one, other) => other.nextAt.getTime() - one.nextAt.getTime());
  if (hold === undefined) return { state: 'ok', because: null };

  const because =
    `${hold.cause.words}; tried again at ${hold.nextAt.toISOString()}, ` +
    `or at once with: fulfilment-sync run <job> --client ${row.client}`;
  return { state: hold.code, because, holdUntil: hold.nextAt };
}

/** Accepts the account that is set up here for a client whose rows came from another account. */
async function acceptIdentityCommand(
  key: string,
  { keepCursors = false }: ClientOptions,
): Promise<number> {
  const [client] = selectClients(readConfig({ database: true, clients: true }), key);
  if (client === undefined) return 2;

  const result = await withDatabase('client', (db) =>
    acceptIdentity(db, toClientIdentity(client), keepCursors, readOperatorName()),
  );

  if (!result.accepted)
    print(`${key}: its rows already come from this account; nothing was changed`);
  else printAccepted(client, keepCursors, result);
  return 0;
}

function printAccepted(
  { key, baseUrl }: WarehouseClient,
  keepsCursors: boolean,
  { formerBaseUrl, waitingRows, deadRows, erasures }: Awaited<ReturnType<typeof acceptIdentity>>,
): void {
  const former = formerBaseUrl === null ? '' : `; until now it was ${formerBaseUrl}`;
  print(`${key}: ${baseUrl.href} is accepted${former}`);

  if (keepsCursors) print('Its streams continue from their cursors.');
  else print('Its streams are read again from the beginning.');
  if (!keepsCursors && formerBaseUrl !== null)
    print(
      'Rows of the former service stay in the tables; ' +
        'to start without them, give the client another key.',
    );

  if (erasures > 0)
    print(
      `${erasures} erasures of the former account are forgotten, ` +
        'because its ids may now be those of other orders. ' +
        'If the account is the same, its personal data comes back: erase it again.',
    );
  if (deadRows > 0)
    print(
      `${deadRows} outbox rows are now dead, ` +
        'because their outcome at the former service is not known; ' +
        'see: fulfilment-sync outbox list --status dead',
    );
  if (waitingRows > 0)
    print(
      `${waitingRows} pending outbox rows will be sent to the new service; ` +
        'to cancel one: fulfilment-sync outbox cancel <id>',
    );
}

/** Adds the commands `client …`. */
export function addClientCommands(cli: Command): void {
  const client = addCommand(cli, {
    name: 'client',
    description: 'show the clients, or accept a changed account of a client',
    examples: 'list',
  });

  addCommand(client, {
    name: 'list',
    description: 'show the clients, and why a client is not read',
  })
    .option(...asJson)
    .action(exitWith(clientListCommand));

  addCommand(client, {
    name: 'accept-identity',
    description:
      'accept a changed base URL or user name of a client, so that it is read and pushed again; ' +
      'for another account, this forgets cursors and erasures, and makes unknown rows dead',
    examples: 'default --keep-cursors',
  })
    .argument('<client>', 'client key')
    .option(
      '--keep-cursors',
      'the account is the same, at another address: continue from the stored cursors',
    )
    .action(exitWith(acceptIdentityCommand));
}
