import type { Command } from 'commander';
import { readConfig } from '../../../config/env.ts';
import { toIdentity } from '../../../config/files.ts';
import { toVisible } from '../../core/quote.ts';
import { acceptIdentity } from '../../erp/maintenance/accept-identity.ts';
import { type KnownClient, readClients } from '../../erp/runs/clients.ts';
import {
  addCommand,
  asJson,
  type CommonOptions,
  exitWith,
  print,
  printJson,
  printStyled,
  readOperatorName,
  selectClients,
  withDatabase,
} from '../cli/command-line.ts';
import { formatTable } from '../terminal/table.ts';
import { toClientIdentity } from '../worker/runner.ts';

interface ClientOptions extends CommonOptions {
  readonly keepCursors?: boolean;
}

/** One client: its configuration in this process, and what the database knows about it. */
interface ClientRow {
  readonly client: string;
  /** Null if the client is not set up here. */
  readonly baseUrl: string | null;
  readonly timeZone: string | null;
  readonly state: string;
  readonly because: string | null;
  /** When the client hold ends, and a run tries again; null without a hold. */
  readonly holdUntil: Date | null;
}

/** Prints the clients, and why any of them is not read. */
async function clientListCommand({ json }: ClientOptions): Promise<number> {
  const configured = readConfig({ database: true, clients: false }).clients;
  return withDatabase('client', async (db) => {
    const known = new Map((await readClients(db)).map((row) => [row.client, row]));
    const keys = [...new Set([...configured.map(({ key }) => key), ...known.keys()])].sort();
    const rows = keys.map((client): ClientRow => {
      const configuredClient = configured.find(({ key }) => key === client);
      const row = known.get(client);
      const fits = configuredClient === undefined || row === undefined || row.identity === toIdentity(configuredClient);
      const { baseUrl, timeZone } = configuredClient ?? { baseUrl: null, timeZone: null };
      return {
        client,
        baseUrl: baseUrl?.href ?? null,
        timeZone,
        ...describeState(row, configuredClient !== undefined, fits),
      };
    });
    if (json) printJson(rows);
    else if (rows.length === 0)
      print('No client is set up; see WAREHOUSE_BASE_URL and WAREHOUSE_CLIENTS_FILE in .env.example');
    else printStyled(formatClients(rows));
    return 0;
  });
}

const noHold = { holdUntil: null };

function describeState(
  row: KnownClient | undefined,
  isConfigured: boolean,
  fits: boolean,
): Pick<ClientRow, 'state' | 'because' | 'holdUntil'> {
  if (!isConfigured)
    return { ...noHold, state: 'not set up here', because: 'this process does not read it; its rows stay as they are' };
  if (row === undefined) return { ...noHold, state: 'new', because: 'no worker has started with it yet' };
  if (!fits) {
    const because = `its rows come from ${row.baseUrl}, or from another account there; to accept the new account: fulfilment-sync client accept-identity ${row.client}`;
    return { ...noHold, state: 'parked', because };
  }
  if (row.holdCode === null) return { ...noHold, state: 'ok', because: null };
  const because = `${row.holdReason}; tried again at ${row.holdUntil?.toISOString()}, or at once with: fulfilment-sync run <job> --client ${row.client}`;
  return { state: row.holdCode, because, holdUntil: row.holdUntil };
}

function formatClients(rows: readonly ClientRow[]): string {
  const table = formatTable(rows, {
    client: ({ client }) => client,
    'base URL': ({ baseUrl }) => baseUrl,
    zone: ({ timeZone }) => timeZone,
    state: ({ state }) => state,
  });
  const notes = rows.flatMap(({ client, because }) => (because === null ? [] : [toVisible(`${client}: ${because}`)]));
  return [table, notes.join('\n')].filter((part) => part !== '').join('\n\n');
}

/** Accepts the account that is set up here for a client whose rows came from another account. */
async function acceptIdentityCommand(key: string, { keepCursors = false }: ClientOptions): Promise<number> {
  const [client] = selectClients(readConfig({ database: true, clients: true }), key);
  if (client === undefined) return 2;
  return withDatabase('client', async (db) => {
    const { accepted, formerBaseUrl, waitingRows, deadRows } = await acceptIdentity(
      db,
      toClientIdentity(client),
      keepCursors,
      readOperatorName(),
    );
    if (!accepted) {
      print(`${key}: its rows already come from this account; nothing was changed`);
      return 0;
    }
    print(
      `${key}: ${client.baseUrl.href} is accepted${formerBaseUrl === null ? '' : `; until now it was ${formerBaseUrl}`}`,
    );
    print(keepCursors ? 'Its streams continue from their cursors.' : 'Its streams are read again from the beginning.');
    if (!keepCursors && formerBaseUrl !== null)
      print('Rows of the former service stay in the tables; to start without them, give the client another key.');
    if (deadRows > 0)
      print(
        `${deadRows} outbox rows are now dead, because their outcome at the former service is not known; see: fulfilment-sync outbox list --status dead`,
      );
    if (waitingRows > 0)
      print(
        `${waitingRows} pending outbox rows will be sent to the new service; to cancel one: fulfilment-sync outbox cancel <id>`,
      );
    return 0;
  });
}

/** Adds the commands `client …`. */
export function addClientCommands(cli: Command): void {
  const list = 'fulfilment-sync client list';
  const accept = 'fulfilment-sync client accept-identity default';
  const client = addCommand(cli, 'client', 'show the clients, or accept a changed account of a client', list);
  addCommand(client, 'list', 'show the clients, and why a client is not read', list)
    .option(...asJson)
    .action(exitWith(clientListCommand));
  const description = 'accept a changed base URL or user name of a client, so that it is read and pushed again';
  addCommand(client, 'accept-identity', description, accept)
    .argument('<client>', 'client key')
    .option('--keep-cursors', 'the account is the same, at another address: continue from the stored cursors')
    .action(exitWith(acceptIdentityCommand));
}
